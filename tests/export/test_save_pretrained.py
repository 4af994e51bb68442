"""from_pretrained restores what save_pretrained wrote, with the tokenizer."""

import pytest

import albert_tf
from albert_tf.config import AlbertConfig

TINY = AlbertConfig(vocab_size=2000, embedding_size=4, hidden_size=8, num_hidden_layers=2, num_attention_heads=2,
                    intermediate_size=16, max_position_embeddings=8)


def values_of(model):
    return {variable.name: variable.numpy().tobytes() for variable in model.weights}


@pytest.mark.parametrize("to", ["ours", "hugging_face", "tf1"])
@pytest.mark.parametrize("kind", ["sentence_pieces", "word_pieces"])
def test_model_and_tokenizer_come_back(request, tmp_path, to, kind):
    tokenizer = request.getfixturevalue(kind)
    model = albert_tf.AlbertClassifier(TINY, num_labels=3)
    albert_tf.save_pretrained(model, str(tmp_path / "saved"), tokenizer, to)
    again = albert_tf.from_pretrained(str(tmp_path / "saved"), model="classifier")
    assert again.config == model.config and values_of(again) == values_of(model)
    read = albert_tf.tokenizer_from_pretrained(str(tmp_path / "saved"))
    assert read.vocab == tokenizer.vocab and read.do_lower_case == tokenizer.do_lower_case
    assert bool(read.sp_model) == bool(tokenizer.sp_model)


@pytest.mark.parametrize("max_seq_length, length", [(None, 8), (6, 6), (64, 8)])
def test_the_tokenizer_makes_rows_that_the_model_takes(sentence_pieces, tmp_path, max_seq_length, length):
    model = albert_tf.AlbertClassifier(TINY, num_labels=3, max_seq_length=max_seq_length)
    albert_tf.save_pretrained(model, str(tmp_path), sentence_pieces)
    tokenizer = albert_tf.tokenizer_from_pretrained(str(tmp_path))
    assert tokenizer("one two three four " * 20)["input_ids"].shape == (1, length)
    assert tokenizer("one " * 20, max_seq_length=4)["input_ids"].shape == (1, 4)


def test_without_a_tokenizer_none_is_written(tmp_path):
    albert_tf.save_pretrained(albert_tf.AlbertModel(TINY), str(tmp_path / "saved"))
    with pytest.raises(ValueError, match=f"^no vocabulary comes with the weights at {tmp_path / 'saved'}: pass a file"):
        albert_tf.tokenizer_from_pretrained(str(tmp_path / "saved"))


@pytest.mark.parametrize("to, message", [("ours", "there is already a model in"), ("onnx", "Received: 'onnx'")])
def test_an_unsupported_conversion_is_refused(tmp_path, to, message):
    model = albert_tf.AlbertModel(TINY)
    albert_tf.save_pretrained(model, str(tmp_path))
    with pytest.raises(ValueError, match=message):
        albert_tf.save_pretrained(model, str(tmp_path), to=to)
