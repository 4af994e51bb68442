"""Wrong arguments and inputs of models: each error names the argument or input, and what it received."""

import re

import numpy as np
import pytest

from albert_tf.modeling.classifier import AlbertClassifier, AlbertMultipleChoice, AlbertTokenClassifier
from albert_tf.modeling.pretrainer import AlbertPretrainer
from albert_tf.modeling.sentence_encoder import AlbertSentenceEncoder as Encoder
from albert_tf.modeling.span import AlbertConditionalSpan


def names(error, *parts):
    """Checks that an error has all of these parts in this order in one line. Keras adds lines about the inputs."""
    assert re.search(".*".join(map(re.escape, parts)), str(error.value)), error.value


@pytest.mark.parametrize("model, arguments, parts", [
    (AlbertTokenClassifier, dict(num_labels=2, label_names=["O", "B-place", "I-place"]), ["num_labels=2", "3"]),
    (AlbertTokenClassifier, dict(num_labels=2, label_names=["O", "B-\nplace"]), ["label_names", "'B-"]),
    (AlbertClassifier, dict(num_labels=2, classifier_dropout_prob=1.5), ["classifier_dropout_prob", "at most 1"]),
    (AlbertConditionalSpan, dict(dropout_prob=1.5), ["dropout_prob", "at most 1"]),
    (Encoder, dict(pooling="median"), ["pooling", "mean, max, cls, pooler", "'median'"]),
    (Encoder, dict(truncate_dim=17), ["truncate_dim", "1 to 16", "truncate_dim=17"]),
    (Encoder, dict(default_prompt_name="query"), ["'query'", "none"]),
    (Encoder, dict(prompts=["query"]), ["prompts", "'query'"]),
    (Encoder, dict(prompts={"a\nb": ""}), ["a name in prompts"])])
def test_a_wrong_argument_is_named(tiny_config, model, arguments, parts):
    with pytest.raises(ValueError) as error:
        model(tiny_config, **arguments)
    names(error, *parts)


def ids(*shape):
    return np.zeros(shape, np.int32)


MASKED = dict(p_mask=ids(3, 12))


@pytest.mark.parametrize("model, arguments, change, parts", [
    (AlbertPretrainer, {}, dict(segment_ids=None), ["missing input", "segment_ids"]),
    (AlbertPretrainer, {}, dict(masked_lm_positions=None), ["missing input", "masked_lm_positions"]),
    (AlbertPretrainer, {}, dict(input_ids=ids(3)), ["input_ids", "[batch, seq]", "(3,)"]),
    (AlbertPretrainer, {}, dict(input_mask=ids(3, 11)), ["input_mask", "(3, 11)", "(3, 12)"]),
    (AlbertPretrainer, {}, dict(masked_lm_positions=ids(3)), ["masked_lm_positions", "[batch, predictions]"]),
    (AlbertPretrainer, {}, dict.fromkeys(["input_ids", "input_mask", "segment_ids"], ids(3, 17)),
     ["17 tokens", "max_position_embeddings=16"]),
    (AlbertMultipleChoice, {}, dict(input_ids=ids(3, 13)), ["[batch, choices * seq]"]),
    (AlbertMultipleChoice, dict(num_choices=5), {}, ["5 choices", "(3, 12)"]),
    (AlbertMultipleChoice, {}, dict(input_ids=ids(3)), ["[batch, choices, seq]"]),
    (AlbertMultipleChoice, {}, dict(input_ids=None), ["missing input", "input_ids"]),
    (AlbertConditionalSpan, {}, {}, ["missing input", "p_mask"]),
    (AlbertConditionalSpan, {}, dict(p_mask=ids(3, 11)), ["p_mask"]),
    (AlbertConditionalSpan, {}, dict(MASKED, start_positions=ids(3, 1)), ["start_positions", "[batch]"]),
    (AlbertConditionalSpan, dict(start_n_top=13), MASKED, ["13 candidates", "12 tokens"])])
def test_a_wrong_input_is_named(tiny_config, tiny_batch, model, arguments, change, parts):
    batch = {name: value for name, value in dict(tiny_batch, **change).items() if value is not None}
    with pytest.raises(ValueError) as error:
        model(tiny_config, **arguments)(batch)
    names(error, *parts)
