"""Exported SavedModels, in processes that have only TensorFlow and tensorflow_text."""

import importlib.metadata
import importlib.util
import inspect
import json
import pathlib
import re
import subprocess
import sys

import numpy as np
import pytest
import script_process
import tensorflow as tf
from peers import python_of

from albert_tf import keras
from albert_tf.config import AlbertConfig
from albert_tf.modeling.classifier import AlbertClassifier, AlbertTokenClassifier
from albert_tf.modeling.pretrainer import AlbertPretrainer
from albert_tf.modeling.span import AlbertSpan
from albert_tf.tasks.classification.answers import export_classification
from albert_tf.tasks.masked_lm import GraphMasks, export_mask_filling, fill_masks, masked_ids
from albert_tf.tasks.squad.answers import AnswerOptions
from albert_tf.tasks.squad.export import export_question_answering
from albert_tf.tasks.squad.features import FeatureOptions
from albert_tf.tasks.tagging.features import TaggingFeatureOptions
from albert_tf.tasks.tagging.text_tags import export_tagging
from albert_tf.text.graph.tokenization import GraphTokenizer
from albert_tf.text.tokenization import FullTokenizer

pytestmark = [pytest.mark.both_stacks, pytest.mark.long]

HELPERS = pathlib.Path(__file__).parents[1] / "helpers"
# Its path, and not the module, whose flags would stand beside those of demo/__main__.py, which another test imports.
SAVED_MODEL_CLI = importlib.util.find_spec("tensorflow.python.tools.saved_model_cli").origin
MASKED = ["The [MASK] of the file.", "no mask, Größe 1,234", "[MASK] [MASK], [MASK]s", ""]


@pytest.fixture(scope="module", params=["SentencePiece", "WordPiece"])
def tokenizer(request, golden):
    """Both tokenizers. A test that sets its own parameter does not depend on the tokenizer."""
    if request.param == "SentencePiece":
        return FullTokenizer(spm_model_file=str(golden / "tiny_spm/tiny.model"))
    return FullTokenizer(vocab_file=str(golden / "wordpiece/vocab.txt"))


@pytest.fixture(scope="module")
def config(tokenizer):
    return AlbertConfig(vocab_size=tokenizer.vocab_size, embedding_size=8, hidden_size=16, num_hidden_layers=2,
                        num_attention_heads=2, intermediate_size=32, max_position_embeddings=24)


@pytest.fixture(scope="module")
def pretrainer(config):
    return AlbertPretrainer(config)


@pytest.fixture(scope="module")
def mask_filling(pretrainer, tokenizer, tmp_path_factory):
    """The folder of a SavedModel that fills masks, whose export reads no source that may be edited meanwhile."""
    folder, find, sources_read = tmp_path_factory.mktemp("mask_filling") / "served", inspect.findsource, []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(inspect, "findsource", lambda thing: sources_read.append(thing) or find(thing))
        export_mask_filling(str(folder), pretrainer, tokenizer, top_k=3)
    assert not [thing for thing in sources_read if "tensorflow" not in pathlib.Path(inspect.getfile(thing)).parts]
    return folder


def run(script, *arguments, **options):
    done = script_process.run(script, arguments, cwd="/", **options)
    assert done.returncode == 0, done.stderr
    return done.stdout


def ask(folder, *questions):
    return json.loads(run(HELPERS / "saved_model_client.py", folder, input=json.dumps(questions)))


def test_tags_without_names_are_not_exported(tmp_path, tokenizer, config):
    with pytest.raises(ValueError, match="the tags have no names"):
        export_tagging(str(tmp_path / "served"), AlbertTokenClassifier(config, 2), tokenizer, TaggingFeatureOptions(16))


# Loads a SavedModel as a program in another language does: with a few op libraries instead of tensorflow_text.
OP_LIBRARIES_CLIENT = """
import importlib.util, os, sys
import tensorflow as tf

folder, *libraries = sys.argv[1:]
package = os.path.dirname(importlib.util.find_spec("tensorflow_text").origin)  # which is not imported
for library in libraries:
    tf.load_op_library(os.path.join(package, "python/ops", library))
assert tf.saved_model.load(folder).signatures["serving_default"](text=tf.constant(["Ada [MASK] a boat."]))
assert not any(name.startswith(("albert_tf", "tensorflow_text")) for name in sys.modules)
"""


def test_the_op_libraries_that_the_page_on_serving_names_are_enough(tmp_path, tokenizer, config):
    page = (HELPERS.parents[1] / "docs/serving.md").read_text("utf-8")
    rows = dict(re.findall(r"^\| (\w+)[^|]*\| (`_.*`) \|$", page, re.MULTILINE))
    named = [rows["SentencePiece" if tokenizer.sp_model else "WordPiece"], rows["run_tagging"]]
    model = AlbertTokenClassifier(config, 2, label_names=("O", "B-PER"))
    export_tagging(str(tmp_path / "served"), model, tokenizer, TaggingFeatureOptions(16))
    libraries = re.findall(r"_\w+\.so", " ".join(named))
    # A process of its own: those of script_process have tensorflow_text.
    done = subprocess.run([sys.executable, "-c", OP_LIBRARIES_CLIENT, tmp_path / "served", *libraries],
                          capture_output=True, text=True, timeout=script_process.TIMEOUT)
    assert done.returncode == 0, done.stderr


def int_feature(values):
    return tf.train.Feature(int64_list=tf.train.Int64List(value=values))


# Calls a SavedModel as a layer of Keras 3, alone and in a model, with nothing of ours.
KERAS_3_CLIENT = """
import json, sys
import keras, numpy as np, tensorflow as tf
import tensorflow_text  # registers the ops of the tokenization

folder, output, *texts = sys.argv[1:]
layer = keras.layers.TFSMLayer(folder, call_endpoint="serving_default")
text = keras.Input([], dtype="string")
model = keras.Model(text, keras.layers.Rescaling(2.0)(layer(text)[output]))
print(json.dumps(dict(layer=np.asarray(layer(tf.constant(texts))[output]).tolist(),
                      model=model.predict(tf.constant(texts), verbose=0).tolist())))
"""


@pytest.mark.parametrize("tokenizer", ["SentencePiece"], indirect=True)
def test_a_classifier_is_a_layer_of_keras_3(tmp_path, tokenizer, config):
    model = AlbertClassifier(config.replace(initializer_range=0.5), num_labels=3)
    export_classification(str(tmp_path / "served"), model, tokenizer, 12, has_pairs=False)
    texts = ["The name of", "file", "very long " * 10]
    expected = tf.nn.softmax(model(tokenizer(texts, max_seq_length=12))["logits"])
    keras_3 = importlib.metadata.version("keras").startswith("3.")
    done = subprocess.run([sys.executable if keras_3 else python_of("keras-hub"), "-c", KERAS_3_CLIENT,
                           tmp_path / "served", "probabilities", *texts], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    outputs = json.loads(done.stdout)
    np.testing.assert_allclose(outputs["layer"], expected, atol=1e-6)
    np.testing.assert_allclose(outputs["model"], 2 * expected, atol=1e-6)


def test_an_answer_is_cut_out_of_the_text(tmp_path, tokenizer, config):
    keras.utils.set_random_seed(2)  # with others, the answer may be the piece that is only a word-start mark
    export_question_answering(str(tmp_path / "served"), AlbertSpan(config), tokenizer,
                              FeatureOptions(24, 8, 6, is_training=False), AnswerOptions("1.1"))
    context = "A\u0308 e\u0308"  # an answer ends after the marks of its last character
    (found,) = ask(tmp_path / "served", ("serving_default", dict(question=["the name"], context=[context])))
    assert found["answer"][0] and found["answer"][0] == context[found["start"][0] : found["end"][0]]
    assert found["answer"][0].rstrip().endswith("\u0308")


def test_masks_are_filled_as_in_python_also_by_saved_model_cli(mask_filling, tokenizer, pretrainer):
    (asset,) = (mask_filling / "assets").iterdir()
    assert asset.read_bytes() == pathlib.Path(tokenizer.vocabulary_file).read_bytes()
    shown = run(SAVED_MODEL_CLI, "run", "--dir", mask_filling, "--tag_set", "serve", "--signature_def",
                "serving_default", "--input_exprs", "text=[b'The [MASK] of the file.']")
    assert "Result for output key pieces" in shown and "Result for output key probabilities" in shown
    (found,) = ask(mask_filling, ("serving_default", dict(text=MASKED)))
    for text, pieces, probabilities in zip(MASKED, found["pieces"], found["probabilities"]):
        fillings = fill_masks(pretrainer, tokenizer, text, top_k=3) if "[MASK]" in text else []
        missing = 3 - len(fillings)
        assert pieces == [[filling.piece for filling in row] for row in fillings] + [[""] * 3] * missing
        expected = [[filling.probability for filling in row] for row in fillings] + [[0.0] * 3] * missing
        np.testing.assert_allclose(probabilities, expected, rtol=1e-4)


def test_texts_that_are_empty_too_long_or_no_utf8_are_answered(mask_filling):
    served = tf.saved_model.load(str(mask_filling)).signatures["serving_default"]
    broken = [b"", b"\xff\xfe [MASK] \xc3", b"word " * 100 + b"[MASK]"]
    probabilities = served(text=tf.constant(broken))["probabilities"].numpy()
    assert probabilities.shape == (3, 1, 3) and np.isfinite(probabilities).all()
    assert probabilities[1].sum() > 0
    assert probabilities[0].sum() == probabilities[2].sum() == 0  # no mask; a mask behind the model's last position
    assert served(text=tf.constant(["nothing"]))["pieces"].shape == [1, 0, 3]
    assert served(text=tf.constant([], tf.string))["pieces"].shape == [0, 0, 3]


def test_what_the_model_cannot_take_is_refused_in_words(mask_filling):
    served = tf.saved_model.load(str(mask_filling)).signatures
    too_short = tf.train.Example(features=tf.train.Features(feature=dict(input_ids=int_feature([2, 3]))))
    for serialized, named in ((too_short.SerializeToString(), "input_ids"), (b"no example", "parse")):
        with pytest.raises(tf.errors.InvalidArgumentError, match=named):
            served["examples"](tf.constant([serialized]))
    names = ("input_ids", "input_mask", "segment_ids", "masked_lm_positions")
    with pytest.raises(tf.errors.InvalidArgumentError, match="more tokens than max_position_embeddings=24"):
        served["ids"](**{name: tf.ones([1, 25], tf.int32) for name in names})
    with pytest.raises(tf.errors.InvalidArgumentError, match="12345"):
        served["ids"](**{name: tf.fill([1, 5], 12345 if name == "input_ids" else 1) for name in names})


def test_ids_in_the_graph_are_those_of_masked_ids(tokenizer):
    texts = [*MASKED, "[MASK]", "a[MASK]b [MASK]. [MASK]\u2003c [MASK]\u00a0d", "[MASK][MASK]ing[MASK]'s"]
    packed = GraphMasks(tokenizer, 64, 1).pack(GraphTokenizer(tokenizer), tf.constant(texts))
    for text, ids, mask in zip(texts, packed["input_ids"].numpy(), packed["input_mask"].numpy()):
        assert ids[mask == 1].tolist() == masked_ids(tokenizer, text)
