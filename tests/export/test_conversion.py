"""convert_checkpoint.py: bit-equal conversion between formats, heads recognized by variables, no overwriting."""

import numpy as np
import pytest
import tensorflow as tf
from in_process import loaded
from new_head import new_head
from safetensors.numpy import load_file, save_file
from script_process import run

import albert_tf
from albert_tf import keras
from albert_tf.config import AlbertConfig
from albert_tf.export import FORMATS, conversion
from albert_tf.export.conversion import convert, save, save_random
from albert_tf.modeling.layers import release_name
from albert_tf.utils.outputs import used_alone
from albert_tf.weights.heads import HEAD_NAMES, head_named
from albert_tf.weights.settings import VocabularyFiles
from albert_tf.weights.stored_model import open_source
from albert_tf.weights.tf1 import save_tf1_checkpoint

TINY = AlbertConfig(vocab_size=20, embedding_size=4, hidden_size=8, num_hidden_layers=3, num_attention_heads=2,
                    intermediate_size=16, max_position_embeddings=6)
KINDS = [name for name in HEAD_NAMES if name != "sentence_encoder"]


def values_of(model):
    return {release_name(variable): variable.numpy() for variable in model.weights}


def made(folder, to="ours", kind="pretrainer", vocabulary=VocabularyFiles(), **changes):
    model = new_head(kind, TINY.replace(**changes))
    save(model, str(folder), to, vocabulary)
    return model


@pytest.mark.parametrize("kind, there", [
    *((kind, there) for kind in KINDS for there in ("tf1", "ours")),
    *((kind, "hugging_face") for kind in KINDS if kind != "conditional_span"),
    *((kind, "tf_hub") for kind in ("encoder", "pretrainer"))])
def test_from_ours_to_another_form_and_back_is_bit_equal(golden, tmp_path, kind, there):
    vocabulary = VocabularyFiles(spm_model_file=str(golden / "tiny_spm/tiny.model"))
    before = values_of(made(tmp_path / "first", kind=kind, vocabulary=vocabulary))
    convert(open_source(str(tmp_path / "first")), str(tmp_path / "there"), there, kind)
    convert(open_source(str(tmp_path / "there")), str(tmp_path / "back"), "ours", kind)
    after = values_of(albert_tf.from_pretrained(str(tmp_path / "back"), model=kind))
    assert before.keys() == after.keys()
    for name, value in before.items():
        # Their models of spans and of tokens have no pooler.
        if there != "hugging_face" or kind not in ("span", "token_classifier") or "pooler" not in name:
            np.testing.assert_array_equal(after[name], value)


@pytest.mark.parametrize("sharing", ["attention", "ffn", "none"])
def test_every_sharing_comes_back_from_the_releases_names(tmp_path, sharing):
    before = values_of(made(tmp_path / "first", cross_layer_sharing=sharing))
    convert(open_source(str(tmp_path / "first")), str(tmp_path / "tf1"), "tf1")
    after = albert_tf.from_pretrained(str(tmp_path / "tf1"), model="pretrainer")
    assert all(np.array_equal(value, values_of(after)[name]) for name, value in before.items())
    words = {"none": dict(cross_layer_sharing="all", num_hidden_groups=3)}  # the release's own
    assert after.config == TINY.replace(**words.get(sharing, dict(cross_layer_sharing=sharing)))


@pytest.mark.parametrize("kind", ["encoder", "pretrainer", "classifier", "token_classifier", "span",
                                  "conditional_span"])
def test_the_kind_of_model_follows_from_the_variables(tmp_path, kind):
    made(tmp_path, "tf1", kind)
    assert open_source(str(tmp_path)).head == kind


def test_one_label_is_a_regression_or_a_multiple_choice(tmp_path):
    made(tmp_path / "ours", "ours", "multiple_choice")
    assert open_source(str(tmp_path / "ours")).head == "multiple_choice"
    (tmp_path / "ours/albert_tf.json").unlink()  # as in the release
    with pytest.raises(ValueError, match="can be a regression or a multiple-choice model: set"):
        convert(open_source(str(tmp_path / "ours")), str(tmp_path / "new"), "tf1")
    (tmp_path / "ours/albert_tf.json").write_text('{"head": "classifier"}')  # as run_classifier.py writes it
    convert(open_source(str(tmp_path / "ours")), str(tmp_path / "regression"), "hugging_face")
    assert open_source(str(tmp_path / "regression")).head == "classifier"
    made(tmp_path / "hf", "hugging_face", "multiple_choice")
    assert open_source(str(tmp_path / "hf")).head == "multiple_choice"


@pytest.mark.parametrize("arguments", [{}, dict(multi_label=True)])
@pytest.mark.parametrize("to", ["ours", "tf1", "hugging_face"])
def test_a_saved_classifier_with_one_output_is_read_with_its_head(tmp_path, to, arguments):
    albert_tf.save_pretrained(albert_tf.AlbertClassifier(TINY, 1, **arguments), str(tmp_path / "saved"), to=to)
    assert open_source(str(tmp_path / "saved")).head == "classifier"
    convert(open_source(str(tmp_path / "saved")), str(tmp_path / "tf1"), "tf1")
    assert open_source(str(tmp_path / "tf1")).head == "classifier"


def test_a_regression_beside_its_hugging_face_folder_keeps_its_head(tmp_path):
    albert_tf.save_pretrained(albert_tf.AlbertClassifier(TINY, 1), str(tmp_path))
    convert(open_source(str(tmp_path)), str(tmp_path), "hugging_face")
    assert open_source(str(tmp_path)).head == "classifier"


@pytest.mark.parametrize("to", FORMATS)
def test_the_folder_of_a_run_is_not_written_to(tmp_path, to):
    """The run could not be continued without the settings of its adapters and its task."""
    model = made(tmp_path)
    for file in tmp_path.glob("model.ckpt-best.*"):
        file.rename(tmp_path / file.name.replace("best", "4"))
    before = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    message = "has the checkpoints of a training run, which needs its own settings there: choose another directory"
    with pytest.raises(ValueError, match=message):
        convert(open_source(str(tmp_path)), str(tmp_path), to)
    with pytest.raises(ValueError, match=message):
        albert_tf.save_pretrained(model, str(tmp_path), to=to)
    assert before == {file.name: file.read_bytes() for file in tmp_path.iterdir()}


def test_settings_of_a_folder_are_not_lost_by_a_conversion_in_it(tmp_path):
    model = albert_tf.AlbertClassifier(TINY, 2, label_names=("good", "bad"), single_texts=True)
    save(model, str(tmp_path), "hugging_face")
    before = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    with pytest.raises(ValueError, match=f"{tmp_path} stores another head, label_names, single_texts than that of the"):
        convert(open_source(str(tmp_path)), str(tmp_path), "ours", "encoder")
    assert before == {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    convert(open_source(str(tmp_path)), str(tmp_path), "ours")
    assert albert_tf.from_pretrained(str(tmp_path), "classifier").label_names == ("good", "bad")


def test_a_model_is_not_saved_beside_another(tmp_path):
    for to, other in (("ours", "hugging_face"), ("hugging_face", "tf1")):
        albert_tf.save_pretrained(albert_tf.AlbertClassifier(TINY, 1), str(tmp_path / to), to=to)
        with pytest.raises(ValueError, match=f"there is already a model in {tmp_path}/{to}: choose another directory"):
            albert_tf.save_pretrained(albert_tf.AlbertClassifier(TINY, 2), str(tmp_path / to), to=other)


def test_optimizer_slots_are_not_converted(golden, tmp_path):
    convert(open_source(str(golden / "model_a/model.ckpt-training")), str(tmp_path), "tf1")
    old, new = (tf.train.load_checkpoint(str(path)) for path in
                (golden / "model_a/model.ckpt-training", tmp_path / "model.ckpt-best"))
    names = [name for name in old.get_variable_to_shape_map() if "adam_" not in name and name != "global_step"]
    assert sorted(new.get_variable_to_shape_map()) == sorted(names)
    assert all(np.array_equal(new.get_tensor(name), old.get_tensor(name)) for name in names)


def test_a_head_that_was_not_restored_is_left_out_of_the_releases_format(tmp_path, caplog):
    """As for Hugging Face's albert-base-v2, which has no sentence-order head."""
    made(tmp_path / "hf", "hugging_face")
    tensors = load_file(tmp_path / "hf/model.safetensors")
    save_file({key: value for key, value in tensors.items() if "sop" not in key}, tmp_path / "hf/model.safetensors")
    convert(open_source(str(tmp_path / "hf")), str(tmp_path / "tf1"), "tf1")
    names = tf.train.load_checkpoint(str(tmp_path / "tf1/model.ckpt-best")).get_variable_to_shape_map()
    assert "cls/predictions/output_bias" in names
    assert not [name for name in names if "seq_relationship" in name]
    lacks = "lacks variables of the pretrainer: cls/seq_relationship/output_weights, cls/seq_relationship/output_bias"
    assert f"hf {lacks}. They are left out" in caplog.text
    convert(open_source(str(tmp_path / "tf1")), str(tmp_path / "ours"), "ours")
    assert f"tf1/model.ckpt-best {lacks}" in caplog.text


@pytest.mark.parametrize("lower, keep_accents", [(True, True), (False, False), (None, None)])
def test_vocabulary_its_options_and_config_come_along(golden, tmp_path, lower, keep_accents):
    vocabulary = VocabularyFiles(str(golden / "tiny_spm/tiny.model"), None, lower, keep_accents)
    made(tmp_path / "first", vocabulary=vocabulary)
    for source, to, name in (("first", "tf1", "tiny.model"), ("tf1", "hugging_face", "spiece.model"),
                             ("hugging_face", "ours", "spiece.model")):
        convert(open_source(str(tmp_path / source)), str(tmp_path / to), to)
        found = open_source(str(tmp_path / to))
        assert found.config == TINY
        tokenizer = found.vocabulary.tokenizer()
        assert (tokenizer.do_lower_case, tokenizer.keep_accents) == (lower is not False, keep_accents is True)
        assert found.vocabulary.spm_model_file == str(tmp_path / to / name)
        assert (tmp_path / to / name).read_bytes() == (golden / "tiny_spm/tiny.model").read_bytes()


@pytest.mark.parametrize("to", [pytest.param(to, marks=pytest.mark.long if to == "tf_hub" else ()) for to in FORMATS])
def test_the_same_conversion_makes_a_finished_or_unfinished_output_again(golden, tmp_path, monkeypatch, to):
    bert = dict(cross_layer_sharing="none", embedding_size=TINY.hidden_size)
    vocabulary = VocabularyFiles(spm_model_file=str(golden / "tiny_spm/tiny.model"))
    for name in ("source", "other"):
        made(tmp_path / name, "ours", vocabulary=vocabulary, **(bert if to == "tf1_bert" else {}))
    source, folder = open_source(str(tmp_path / "source")), tmp_path / "converted"

    def interrupted(*_, **__):
        raise KeyboardInterrupt

    for write in ("write_model_card", "write_settings" if to in ("ours", "tf1") else "write_model_card"):
        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):  # as a kill leaves it
            patch.setattr(conversion, write, interrupted)
            convert(source, str(folder), to)
        assert to == "tf_hub" or (folder / FORMATS[to].last_file).exists() == (write == "write_model_card")
    convert(source, str(folder), to)
    files = {path.name: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    assert {"README.md", FORMATS[to].last_file} <= {*files}
    assert not any(name.endswith((".tmp", ".lock")) for name in files)
    with used_alone(str(folder), "export"):
        with pytest.raises(ValueError, match="converted is in use by another export: wait until it has ended"):
            convert(source, str(folder), to)
    convert(source, str(folder), to)
    assert {path.name for path in folder.rglob("*") if path.is_file()} == set(files)
    with pytest.raises(ValueError, match="there is already a model in .*converted: choose another directory"):
        convert(open_source(str(tmp_path / "other")), str(folder), to)


@pytest.mark.parametrize("to", FORMATS)
def test_weights_of_another_model_do_not_get_its_config(golden, tmp_path, to):
    bert = dict(cross_layer_sharing="none", embedding_size=TINY.hidden_size)
    vocabulary = VocabularyFiles(spm_model_file=str(golden / "tiny_spm/tiny.model"))
    made(tmp_path / "there", to, vocabulary=vocabulary, **(bert if to == "tf1_bert" else {}))
    made(tmp_path / "weights", "ours", vocabulary=vocabulary)
    files = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    for other in FORMATS:
        with pytest.raises(ValueError, match=f"there is already a model in {tmp_path}/there: choose another directory"):
            convert(open_source(str(tmp_path / "weights")), str(tmp_path / "there"), other)
        with pytest.raises(ValueError, match=f"there is already a model in {tmp_path}/there: choose another directory"):
            save_random(TINY, str(tmp_path / "there"), other)
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == files


@pytest.mark.parametrize("kind, changes, message", [
    ("pretrainer", dict(cross_layer_sharing="attention"), "cannot share only attention or only feed-forward blocks"),
    ("conditional_span", {}, "has no model for AlbertConditionalSpan")])
def test_what_hugging_face_cannot_express_is_refused(tmp_path, kind, changes, message):
    made(tmp_path / "first", kind=kind, **changes)
    with pytest.raises(ValueError, match=message):
        convert(open_source(str(tmp_path / "first")), str(tmp_path / "hf"), "hugging_face")
    assert not (tmp_path / "hf").exists()


def test_a_module_takes_no_head_of_a_task_and_none_that_was_never_trained(golden, tmp_path):
    vocabulary = VocabularyFiles(spm_model_file=str(golden / "tiny_spm/tiny.model"))
    made(tmp_path / "span", kind="span", vocabulary=vocabulary)
    message = r"a TF-Hub module can have no other head than those of pre-training and a pooling\. Received: AlbertSpan$"
    with pytest.raises(ValueError, match=message):
        convert(open_source(str(tmp_path / "span")), str(tmp_path / "new"), "tf_hub")
    made(tmp_path / "encoder", kind="encoder", vocabulary=vocabulary)
    convert(open_source(str(tmp_path / "encoder")), str(tmp_path / "new"), "tf_hub", "pretrainer")
    assert open_source(str(tmp_path / "new")).head == "encoder"


@pytest.mark.both_stacks
def test_the_script_takes_the_flags_of_export_checkpoints(tmp_path):
    model = head_named("pretrainer").model(TINY)
    save_tf1_checkpoint(model, str(tmp_path / "albert/model.ckpt-7"), global_step=7)
    (tmp_path / "albert/albert_config.json").write_text(TINY.to_json_string())
    done = run("convert_checkpoint", dict(albert_directory=tmp_path / "albert", checkpoint_name="model.ckpt-7",
                                             export_path=tmp_path / "exported"))
    assert done.returncode == 0, done.stderr
    assert "tf1 (pretrainer) written to" in done.stderr
    after = values_of(albert_tf.from_pretrained(str(tmp_path / "exported"), model="pretrainer"))
    assert all(np.array_equal(value, after[name]) for name, value in values_of(model).items())


def test_the_flags_of_export_checkpoints_find_the_latest_checkpoint_and_exclude_ours(tmp_path):
    model = head_named("pretrainer").model(TINY)
    save_tf1_checkpoint(model, str(tmp_path / "albert/model.ckpt-7"), global_step=7)
    (tmp_path / "albert/albert_config.json").write_text(TINY.to_json_string())
    theirs = dict(albert_directory=tmp_path / "albert", export_path=tmp_path / "exported")
    for name in ("init_checkpoint", "output_dir"):
        done = run("convert_checkpoint", dict(theirs, **{name: tmp_path / "other"}))
        assert f"--{name} and --" in done.stderr and "exclude each other: set one of them" in done.stderr
    run("convert_checkpoint", theirs)
    assert (tmp_path / "exported/model.ckpt-best.index").exists()


@pytest.mark.parametrize("to", FORMATS)
def test_without_weights_a_config_is_written_with_random_ones(sentence_pieces, tmp_path, caplog, to):
    config = TINY.replace(vocab_size=sentence_pieces.vocab_size)
    if to == "tf1_bert":
        config = config.replace(embedding_size=8, cross_layer_sharing="none")
    (tmp_path / "config.json").write_text(config.to_json_string())
    with loaded("convert_checkpoint") as script:
        assert script(albert_config_file=tmp_path / "config.json", spm_model_file=sentence_pieces.vocabulary_file,
                      to=to, output_dir=tmp_path / "random") == 0
    assert "the weights are random: the model has learned nothing" in caplog.text
    found = albert_tf.from_pretrained(str(tmp_path / "random"), model="pretrainer")
    assert found.config.differences(config) == {}
    keras.utils.set_random_seed(12345)
    for name, value in values_of(head_named("pretrainer").model(config)).items():
        np.testing.assert_array_equal(values_of(found)[name], value)


@pytest.mark.parametrize("flags, message", [
    (dict(output_dir="out"), "the model is missing: set --init_checkpoint to weights, or --albert_config_file for"),
    (dict(albert_config_file="albert_base_v2"), "--output_dir is missing"),
    (dict(albert_config_file="albert_base_v2", output_dir="out", model="classifier"),
     "without weights, nothing tells the number of labels of a classifier: set --init_checkpoint, or the model to"),
])
def test_random_weights_need_a_config_a_folder_and_a_head_without_labels(tmp_path, monkeypatch, capsys, flags, message):
    monkeypatch.chdir(tmp_path)
    with loaded("convert_checkpoint") as script:
        assert script(**flags) == 1
    assert message in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
