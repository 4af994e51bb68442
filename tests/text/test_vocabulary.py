"""Training a vocabulary."""

import pytest

from albert_tf.text.tokenization import FullTokenizer
from albert_tf.text.vocabulary import train_vocabulary

pytestmark = pytest.mark.both_stacks

SPECIAL = ["<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]"]
TEXT = "\n".join(f"The number {i} is {'even' if i % 2 == 0 else 'odd'}, and {i + 1} comes after it (£{i})."
                 for i in range(200))


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text(TEXT + "\n\n")
    return str(path)


def train(tmp_path, path, name="mine", **options):
    """The tokenizer of a new vocabulary of 60 pieces."""
    train_vocabulary([str(path)], str(tmp_path / name), vocab_size=60, **options)
    return FullTokenizer(spm_model_file=str(tmp_path / f"{name}.model"))


def test_the_vocabulary_has_the_releases_special_pieces_first_and_its_file_lists_the_pieces(tmp_path, text):
    tokenizer = train(tmp_path, text)
    assert tokenizer.vocab_size == 60
    assert tokenizer.convert_ids_to_tokens(range(13)) == [*SPECIAL, "(", ")", '"', "-", ".", "–", "£", "€"]
    assert "".join(tokenizer.convert_ids_to_tokens(tokenizer.encode("The Number"))) == "\u2581the\u2581number"
    assert "".join(tokenizer.convert_ids_to_tokens(tokenizer.encode("ÉVEN 7"))) == "\u2581even\u25817"
    listed = [line.split("\t")[0] for line in (tmp_path / "mine.vocab").read_text(encoding="utf-8").splitlines()]
    assert listed == tokenizer.convert_ids_to_tokens(range(60))


def test_case_and_accents_are_kept_on_request(tmp_path, text, caplog):
    cased = train(tmp_path, text, "cased", do_lower_case=False)
    assert any("T" in piece for piece in cased.vocab if piece not in SPECIAL) and not caplog.text
    (tmp_path / "text.txt").write_text(TEXT.replace("comes", "kämé"), encoding="utf-8")
    for keep_accents in (False, True):
        characters = set("".join(train(tmp_path, text, keep_accents=keep_accents).vocab))
        assert (characters & set("äé") == set("äé")) is keep_accents
        assert ("7.0 % of the letters lose their accents" in caplog.text) is not keep_accents
        caplog.clear()


def test_lines_that_are_too_long_are_counted_and_the_others_make_the_vocabulary(tmp_path, caplog):
    longest, longer = "a" * 16_384, "ß" * 8192 + "b"  # 16,384 and 16,385 bytes
    (tmp_path / "long.txt").write_text(f"{longer}\n{longest}\n{TEXT}\n{longer}\n", encoding="utf-8")
    train(tmp_path, tmp_path / "long.txt", do_lower_case=False)
    assert "2 of 203 lines are longer than 16,384 bytes" in caplog.text


@pytest.mark.parametrize("content, size, message", [
    (b"\n \n", 60, "there is no text in .*text.txt"),
    (TEXT.encode(), 5000, r"5000 pieces \(--vocab_size\) on .*text.txt: "),
    (TEXT.encode(), 20, r"20 pieces \(--vocab_size\) on .*text.txt: "),
    pytest.param(b"long " * 4000, 60, "all lines of .*text.txt are longer than 16,384 bytes", id="long lines"),
    (b"fine\n\xff\n", 60, r"^[^ ]*text.txt line 2: not UTF-8 \(invalid start byte\)\. Save the text as UTF-8"),
])
def test_a_mistake_is_named_and_leaves_nothing(tmp_path, content, size, message):
    path = tmp_path / "text.txt"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=message):
        train_vocabulary([str(path)], str(tmp_path / "mine"), size)
    assert [file.name for file in tmp_path.iterdir()] == ["text.txt"]


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(143), OSError("lost")], ids=repr)
def test_a_signal_or_lost_file_while_the_text_is_read_is_not_a_mistake_in_it(tmp_path, error):
    def read(_):
        yield from TEXT.splitlines()
        raise error

    with pytest.raises(type(error)) as raised:
        train(tmp_path, "text.txt", read=read)
    assert raised.value is error and not any(tmp_path.iterdir())


def test_a_text_that_is_too_small_can_have_a_smaller_vocabulary(tmp_path, text):
    prefix = str(tmp_path / "mine")
    with pytest.raises(ValueError, match=r"Vocabulary size too high \(5000\).*<= (\d+)") as refused:
        train_vocabulary([text], prefix, vocab_size=5000)
    largest = int(str(refused.value).rpartition("<= ")[2].rstrip("."))
    assert train_vocabulary([text], prefix, vocab_size=5000, fit=True) == largest * 3 // 4
    assert FullTokenizer(spm_model_file=prefix + ".model").vocab_size == largest * 3 // 4
    assert train_vocabulary([text], prefix, vocab_size=60, fit=True) == 60
