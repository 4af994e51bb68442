"""TF-Hub modules of both generations: read by names, with vocabulary, casing and config; else used as the encoder."""

import functools
import http.server
import os
import tarfile
import threading

import numpy as np
import pytest
import tensorflow as tf

import albert_tf
from albert_tf.config import AlbertConfig
from albert_tf.interchange.from_pretrained import MODELS, load_checkpoint
from albert_tf.interchange.open_source import open_source
from albert_tf.interchange.restoring import release_name
from albert_tf.modeling.albert_model import AlbertModel
from albert_tf.modeling.classifier import AlbertClassifier

TINY = AlbertConfig(vocab_size=20, embedding_size=4, hidden_size=8, num_hidden_layers=3, num_attention_heads=2,
                    intermediate_size=16, max_position_embeddings=6)
INPUTS = dict(input_word_ids="input_ids", input_mask="input_mask", input_type_ids="segment_ids")
BATCH = dict(input_ids=np.array([[2, 5, 3, 0]], np.int32), input_mask=np.array([[1, 1, 1, 0]], np.int32),
             segment_ids=np.array([[0, 0, 1, 0]], np.int32))


def values_of(model):
    return {release_name(variable): variable.numpy() for variable in model.weights}


def tf1_module(path, vocabulary_file, config=TINY, lower=False, scopes=True):
    """A module as the release's export makes it: its variables, its scopes of layers and heads, its signatures."""
    values = values_of(MODELS["pretrainer"](config))
    heads, size = config.num_attention_heads, config.hidden_size // config.num_attention_heads
    v1 = tf.compat.v1
    with tf.Graph().as_default(), v1.Session() as session:
        variables = {name: v1.get_variable(name, initializer=value, use_resource=False)
                     for name, value in values.items()}
        for layer in range(config.num_hidden_layers if scopes else 0):
            block = "bert/encoder/transformer/group_0/inner_group_0/"
            with tf.name_scope(f"module/bert/encoder/transformer/group_0_{layer}/layer_{layer}/inner_group_0"):
                kernel = variables[f"{block}attention_1/self/query/kernel"]
                tf.reshape(kernel, [config.hidden_size, heads, size], name="attention_1/self/query/Reshape")
                with tf.name_scope("ffn_1/intermediate/dense"):
                    tf.nn.gelu(variables[f"{block}ffn_1/intermediate/dense/bias"], approximate=True)
        file = tf.constant(vocabulary_file)
        v1.add_to_collection(v1.GraphKeys.ASSET_FILEPATHS, file)
        ids = v1.placeholder(tf.int32, [None, None])
        table = variables["bert/embeddings/word_embeddings"]
        signatures = dict(tokens=signature(dict(input_ids=ids), dict(sequence_output=tf.gather(table, ids))),
                          tokenization_info=signature({}, dict(vocab_file=file, do_lower_case=tf.constant(lower))))
        session.run(v1.global_variables_initializer())
        builder = v1.saved_model.Builder(str(path))
        builder.add_meta_graph_and_variables(session, [], signature_def_map=signatures,
                                             assets_collection=v1.get_collection(v1.GraphKeys.ASSET_FILEPATHS))
        builder.add_meta_graph(["train"], signature_def_map=signatures)
        builder.save()
    return values


def signature(inputs, outputs):
    inputs, outputs = ({name: tf.compat.v1.saved_model.build_tensor_info(tensor) for name, tensor in tensors.items()}
                       for tensors in (inputs, outputs))
    return tf.compat.v1.saved_model.build_signature_def(inputs, outputs)


class Tf2Module(tf.train.Checkpoint):
    """An encoder of the common interface, by variables of its own names, or by those of an AlbertModel."""

    def __init__(self, encoder=None, width=8):
        super().__init__()
        table = tf.Variable(tf.random.normal([20, width]), name="a_table")
        scale = tf.Variable(1.0, name="a_scale")
        self.variables = encoder.weights if encoder else [table, scale]
        self.trainable_variables = self.variables
        self.regularization_losses = []

        @tf.function(input_signature=[{name: tf.TensorSpec([None, None], tf.int32) for name in INPUTS}])
        def call(inputs):
            if encoder:
                outputs = encoder({ours: inputs[theirs] for theirs, ours in INPUTS.items()})
                return {name: outputs[name] for name in ("pooled_output", "sequence_output", "encoder_outputs")}
            mask = tf.cast(inputs["input_mask"], tf.float32)[..., None]
            words = tf.gather(table, inputs["input_word_ids"]) * scale * mask
            pooled = tf.reduce_sum(words, 1)
            return dict(default=pooled, pooled_output=pooled, sequence_output=words, encoder_outputs=[words, words])

        setattr(self, "__call__", call)


def tf2_module(path, *arguments):
    module = Tf2Module(*arguments)
    tf.saved_model.save(module, str(path))
    return module


@pytest.fixture
def vocabulary_file(golden):
    return str(golden / "tiny_spm/tiny.model")


def test_a_tf1_module_is_read_by_its_variables_names(tmp_path, vocabulary_file):
    values = tf1_module(tmp_path / "module", vocabulary_file)
    model = albert_tf.from_pretrained(str(tmp_path / "module"), model="pretrainer")
    assert all(np.array_equal(value, values[name]) for name, value in values_of(model).items())


def test_a_tf1_module_tells_vocabulary_casing_and_config(tmp_path, vocabulary_file):
    config = TINY.replace(num_attention_heads=4, num_hidden_layers=5)
    tf1_module(tmp_path / "module", vocabulary_file, config, lower=False)
    source = open_source(str(tmp_path / "module"))
    assert source.config == config
    assert source.vocabulary.spm_model_file == str(tmp_path / "module/assets/tiny.model")
    tokenizer = source.vocabulary.tokenizer()
    assert tokenizer.vocab["[CLS]"] == 2 and not tokenizer.do_lower_case
    tf1_module(tmp_path / "lower", vocabulary_file, lower=True)
    assert open_source(str(tmp_path / "lower")).vocabulary.do_lower_case


def test_a_config_beside_a_module_wins_over_its_graph(tmp_path, vocabulary_file):
    tf1_module(tmp_path / "module", vocabulary_file)
    config = TINY.replace(num_attention_heads=1)
    (tmp_path / "module/assets/albert_config.json").write_text(config.to_json_string())
    assert open_source(str(tmp_path / "module")).config == config


def test_a_graph_that_does_not_tell_needs_a_config(tmp_path, vocabulary_file):
    tf1_module(tmp_path / "module", vocabulary_file, scopes=False)
    with pytest.raises(ValueError, match="carries no config.*--albert_config_file"):
        albert_tf.from_pretrained(str(tmp_path / "module"))
    assert albert_tf.from_pretrained(str(tmp_path / "module"), config=TINY).config == TINY


def test_checkpoints_of_fine_tuning_a_module_are_read_too(tmp_path):
    classifier = AlbertClassifier(TINY, num_labels=2)
    names, tensors = zip(*((f"module/{name}" if name.startswith("bert/") else name, value)
                           for name, value in values_of(classifier).items()))
    tf.raw_ops.SaveV2(prefix=str(tmp_path / "model.ckpt-9"), tensor_names=names, shape_and_slices=[""] * len(names),
                      tensors=tensors)
    again = AlbertClassifier(TINY, num_labels=2)
    assert not load_checkpoint(again, str(tmp_path / "model.ckpt-9")).not_restored
    assert all(np.array_equal(a, b) for a, b in zip(classifier.weights, again.weights))


def test_a_tf2_module_with_the_releases_names_is_read_by_them(tmp_path):
    encoder = AlbertModel(TINY)
    tf2_module(tmp_path / "module", encoder)
    with pytest.raises(ValueError, match="carries no albert_config.json"):
        albert_tf.from_pretrained(str(tmp_path / "module"))
    os.makedirs(tmp_path / "module/assets.extra")
    (tmp_path / "module/assets.extra/albert_config.json").write_text(TINY.to_json_string())
    again = albert_tf.from_pretrained(str(tmp_path / "module"), model="classifier", num_labels=2)
    assert isinstance(again.albert, AlbertModel)
    np.testing.assert_array_equal(again(BATCH)["pooled_output"], encoder(BATCH)["pooled_output"])


def test_any_other_tf2_module_is_the_encoder_it_is(tmp_path):
    module = tf2_module(tmp_path / "module")
    expected = getattr(module, "__call__")({theirs: tf.constant(BATCH[ours]) for theirs, ours in INPUTS.items()})
    encoder = albert_tf.from_pretrained(str(tmp_path / "module"))
    outputs = encoder(BATCH)
    np.testing.assert_array_equal(outputs["pooled_output"], expected["pooled_output"])
    np.testing.assert_array_equal(outputs["sequence_output"], expected["sequence_output"])
    assert len(outputs["encoder_outputs"]) == 2
    config = open_source(str(tmp_path / "module")).config
    assert (config.vocab_size, config.hidden_size, config.num_hidden_layers) == (20, 8, 2)


@pytest.mark.parametrize("kind, arguments", [
    ("classifier", dict(num_labels=2)), ("span", {}), ("conditional_span", dict(start_n_top=2, end_n_top=2))])
def test_a_tf2_module_is_trained_under_any_head(tmp_path, kind, arguments):
    tf2_module(tmp_path / "module")
    model = albert_tf.from_pretrained(str(tmp_path / "module"), model=kind, **arguments)
    batch = dict(BATCH, p_mask=np.zeros([1, 4], np.int32), start_positions=np.array([1], np.int32))
    output = dict(classifier="logits", span="start_logits", conditional_span="end_log_probs")[kind]
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(model(batch, training=True)[output] ** 2)
    trained = {variable.name.split(":")[0]: variable for variable in model.trainable_variables}
    assert {"a_table", "a_scale"} < set(trained)
    assert not any(name.startswith("bert/") for name in trained)
    assert tape.gradient(loss, trained["a_scale"]) is not None


def test_a_script_that_made_its_model_gets_the_module_in_it(tmp_path):
    tf2_module(tmp_path / "module")
    config = open_source(str(tmp_path / "module")).config
    model = AlbertClassifier(config, num_labels=2)
    report = load_checkpoint(model, str(tmp_path / "module"))
    assert set(report.restored) == {"a_table", "a_scale"}
    assert set(report.not_restored) == {"output_weights", "output_bias"}
    assert model(BATCH)["logits"].shape == [1, 2]


def test_what_was_trained_of_a_tf2_module_comes_back_from_our_checkpoint(tmp_path):
    tf2_module(tmp_path / "module")
    trained, again = (albert_tf.from_pretrained(str(tmp_path / "module"), model="classifier", num_labels=2)
                      for _ in range(2))
    for variable in trained.trainable_variables:
        variable.assign_add(tf.ones_like(variable))
    tf.train.Checkpoint(model=trained).write(str(tmp_path / "model.ckpt-best"))
    report = load_checkpoint(again, str(tmp_path / "model.ckpt-best"))
    assert not report.not_restored and not report.not_used
    np.testing.assert_array_equal(again(BATCH)["logits"], trained(BATCH)["logits"])
    with pytest.raises(ValueError, match="has a head and no encoder: .*--albert_hub_module_handle"):
        load_checkpoint(AlbertClassifier(TINY, num_labels=2), str(tmp_path / "model.ckpt-best"))


@pytest.mark.parametrize("make, message", [
    (lambda path: MODELS["pretrainer"](TINY), "used as the encoder it is, and cannot become AlbertPretrainer"),
    (lambda path: AlbertModel(TINY), "cannot become AlbertModel"),
    (lambda path: AlbertClassifier(TINY.replace(hidden_size=16), 2), "its hidden_size is 8, and 16 is wanted")])
def test_a_tf2_module_that_does_not_fit_is_refused(tmp_path, make, message):
    tf2_module(tmp_path / "module")
    with pytest.raises(ValueError, match=message):
        load_checkpoint(make(tmp_path), str(tmp_path / "module"))


def test_a_module_with_two_variables_of_one_name_is_refused(tmp_path):
    module = Tf2Module()
    module.variables = [*module.variables, tf.Variable(0.0, name="twin"), tf.Variable(0.0, name="twin")]
    tf.saved_model.save(module, str(tmp_path / "module"))
    with pytest.raises(ValueError, match="several variables of the same name"):
        albert_tf.from_pretrained(str(tmp_path / "module"))


def test_a_saved_model_that_is_no_text_encoder_is_named(tmp_path):
    module = tf.Module()
    module.weight = tf.Variable(1.0)
    module.__call__ = tf.function(lambda x: x * module.weight, input_signature=[tf.TensorSpec([None], tf.float32)])
    tf.saved_model.save(module, str(tmp_path / "module"))
    with pytest.raises(ValueError, match="module (is no text encoder of TF-Hub|cannot be loaded)"):
        albert_tf.from_pretrained(str(tmp_path / "module"), model="classifier", num_labels=2)


@pytest.mark.parametrize("content", [b"", b"\xff\xff no graph"])
def test_a_damaged_saved_model_is_named(tmp_path, content):
    (tmp_path / "saved_model.pb").write_bytes(content)
    with pytest.raises(ValueError, match="saved_model.pb is no SavedModel"):
        albert_tf.from_pretrained(str(tmp_path))


@pytest.mark.parametrize("make", [lambda path, vocabulary_file: tf1_module(path, vocabulary_file),
                                  lambda path, vocabulary_file: tf2_module(path)], ids=["tf1", "tf2"])
@pytest.mark.parametrize("name", ["variables.index", "variables.data-00000-of-00001"])
def test_cut_variables_of_a_module_are_one_clear_error(tmp_path, vocabulary_file, make, name):
    make(tmp_path / "module", vocabulary_file)
    path = tmp_path / "module/variables" / name
    path.write_bytes(path.read_bytes()[:40])
    with pytest.raises(ValueError, match="module.* cannot be (read|loaded)"):
        albert_tf.from_pretrained(str(tmp_path / "module"), config=TINY)


@pytest.fixture
def server(tmp_path, monkeypatch):
    """(folder of what it serves, its URL); what tensorflow_hub fetches is kept in this test's own folder."""
    monkeypatch.setenv("TFHUB_CACHE_DIR", str(tmp_path / "fetched"))
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    (tmp_path / "served").mkdir()
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=str(tmp_path / "served"))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as running:
        thread = threading.Thread(target=running.serve_forever)
        thread.start()
        yield tmp_path / "served", f"http://127.0.0.1:{running.server_port}"
        running.shutdown()
        thread.join()


@pytest.mark.parametrize("inside", [".", "albert_base"])
def test_a_url_goes_through_tensorflow_hub(tmp_path, vocabulary_file, server, inside):
    """Modules are packed without a directory, the released tar.gz with one."""
    values = tf1_module(tmp_path / "module", vocabulary_file)
    folder, url = server
    with tarfile.open(folder / "albert_base", "w:gz") as archive:
        archive.add(tmp_path / "module", inside)
    model = albert_tf.from_pretrained(f"{url}/albert_base")
    np.testing.assert_array_equal(values_of(model)["bert/pooler/dense/kernel"], values["bert/pooler/dense/kernel"])


def test_a_url_that_has_nothing_is_one_clear_error(server):
    with pytest.raises(ValueError, match=f"{server[1]}/nothing cannot be fetched: .*404"):
        albert_tf.from_pretrained(f"{server[1]}/nothing")


def test_a_fetched_archive_with_a_member_that_leads_out_is_refused(tmp_path, server):
    folder, url = server
    with tarfile.open(folder / "bad", "w:gz") as archive:
        archive.add(__file__, "../../outside")
    with pytest.raises(ValueError, match="bad cannot be fetched"):
        albert_tf.from_pretrained(f"{url}/bad")
    assert not list(tmp_path.rglob("outside"))
