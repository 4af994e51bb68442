"""Functions that predict from text refuse models with other heads, and the tokenizer of another model."""

import contextlib

import pytest
from tiny import TINY

import albert_tf
from albert_tf.tasks.multiple_choice.answers import choose_options
from albert_tf.tasks.sentence_vectors.vectors import text_vectors
from albert_tf.tasks.tagging.text_tags import tag_words
from albert_tf.text.tokenization import FullTokenizer
from albert_tf.weights.vocabulary import check_vocabulary

SMALLER = TINY.replace(vocab_size=100)


CASES = [
    (lambda: albert_tf.AlbertPretrainer(SMALLER), lambda *of: albert_tf.fill_masks(*of, "The [MASK].")),
    (lambda: albert_tf.AlbertClassifier(SMALLER, 2), lambda *of: albert_tf.classify_texts(*of, ["The name."])),
    (lambda: albert_tf.AlbertSpan(SMALLER), lambda *of: albert_tf.answer_questions(*of, ["Who?"], ["The name."])),
    (lambda: albert_tf.AlbertTokenClassifier(SMALLER, 2), lambda *of: tag_words(*of, [["The", "name"]])),
    (lambda: albert_tf.AlbertMultipleChoice(SMALLER, num_choices=2),
     lambda *of: choose_options(*of, [""], ["Who?"], [["The", "name"]])),
    (lambda: albert_tf.AlbertSentenceEncoder(SMALLER), lambda *of: text_vectors(*of, ["The name."])),
]


@pytest.mark.parametrize("model, predict", CASES)
def test_another_head_and_a_tokenizer_with_more_pieces_than_the_model_are_refused(sentence_pieces, model, predict):
    with pytest.raises(ValueError, match="pieces, but the config's vocab_size is 100: they belong to different models"):
        predict(model(), sentence_pieces)
    with pytest.raises(ValueError, match=r'from_pretrained\(path, model="\w+".*\. Received: AlbertModel'):
        predict(albert_tf.AlbertModel(SMALLER), sentence_pieces)


@pytest.mark.parametrize("size, fits", [(100, True), (97, True), (90, False), (50, False), (65, False)])
def test_a_word_piece_vocabulary_has_the_size_of_the_model_but_for_rounding(tmp_path, size, fits):
    (tmp_path / "vocab.txt").write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n" + "".join(
        f"word{number}\n" for number in range(size - 5)))
    tokenizer = FullTokenizer(str(tmp_path / "vocab.txt"))
    config = SMALLER.replace(vocab_size=104 if size == 97 else 100)
    with contextlib.nullcontext() if fits else pytest.raises(
            ValueError, match=f"vocab.txt has only {size} pieces, but the config's vocab_size is 100: the file was"):
        check_vocabulary(tokenizer, config)
    (tmp_path / "vocab.txt").write_bytes((tmp_path / "vocab.txt").read_bytes()[:-9] + bytes(9))
    with pytest.raises(ValueError, match="vocab.txt is damaged, since it has NUL bytes: copy it again"):
        FullTokenizer(str(tmp_path / "vocab.txt"))
