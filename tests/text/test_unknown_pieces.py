"""Texts that a vocabulary does not have are warned of."""

import pytest

from albert_tf.text.tokenization import FullTokenizer, warn_of_unknown_pieces

TEXTS = ["A fine film 😀", "a dull film 😀 😀", "a quiet day 名", "a quiet day"]


@pytest.mark.parametrize("kind, unknown", [("spm_model_file", "<unk>"), ("vocab_file", "[UNK]")])
def test_the_share_of_unknown_pieces_is_warned_of_with_the_most_frequent_ones(kind, unknown, golden, tmp_path, caplog):
    (tmp_path / "vocab.txt").write_text("\n".join(
        ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "fine", "dull", "film", "quiet", "day"]))
    path = tmp_path / "vocab.txt" if kind == "vocab_file" else golden / "tiny_spm/tiny.model"
    tokenizer = FullTokenizer(**{kind: str(path)})
    ids = [i for ids in tokenizer.encode_batch(TEXTS) for i in ids]
    share = 100 * ids.count(tokenizer.unk_id) / len(ids)
    warn_of_unknown_pieces(tokenizer, TEXTS, "train.csv")
    assert caplog.messages == [f"the vocabulary does not have {share:.1f} % of the pieces of train.csv, which all "
                               f"become {unknown}: most often 😀 名"]


def test_less_than_one_per_cent_is_not_warned_of(golden, caplog):
    warn_of_unknown_pieces(FullTokenizer(spm_model_file=str(golden / "tiny_spm/tiny.model")),
                           [*TEXTS[:1], *["a quiet day"] * 200], "train.csv")
    assert not caplog.messages
