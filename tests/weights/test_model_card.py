"""README.md of a folder of weights: its content, and the fields that it copies from the base model's card."""

import re
from string import ascii_lowercase

import numpy as np
import pytest
import yaml
from tiny import TINY

import albert_tf
from albert_tf.export.conversion import convert, save
from albert_tf.modeling.albert_model import AlbertModel
from albert_tf.modeling.classifier import AlbertClassifier
from albert_tf.modeling.pretrainer import AlbertPretrainer
from albert_tf.modeling.sentence_encoder import AlbertSentenceEncoder
from albert_tf.tasks.classification.answers import text_logits
from albert_tf.training.config import Schedule, Training
from albert_tf.training.run import write_run_card
from albert_tf.weights import model_card
from albert_tf.weights.model_card import model_name, write_calibration, write_model_card
from albert_tf.weights.stored_model import open_model
from albert_tf.weights.vocabulary import VocabularyFiles

CONFIG = TINY.replace(vocab_size=1000, num_hidden_layers=3, max_position_embeddings=8)
FACTS = dict(base_model='models/a "base"', rows=dict(recipe="rte", seed=7, empty=None, odd="a | b"),
             datasets={"x.tfrecord": dict(dupe_factor=5), "dev: 1.tsv": {}}, command="python run.py --x='a b'",
             scores=dict(eval_accuracy=0.75, global_step=20, loss=float("nan")))


def header(text):
    """The fields of a card's header, without the facts."""
    fields = yaml.safe_load(text.split("---\n")[1])
    fields.pop("albert_tf", None)
    return fields


def write(folder, text):
    folder.mkdir(exist_ok=True)
    (folder / "README.md").write_text(text)


def card_of(folder, *arguments, **fields):
    """The card that is written to a folder."""
    folder.mkdir(exist_ok=True)
    write_model_card(str(folder), *arguments, **fields)
    return (folder / "README.md").read_text()


def test_a_card_says_what_weights_were_made_from_and_their_scores(tmp_path):
    text = card_of(tmp_path / "rte", AlbertClassifier(CONFIG, 2), **FACTS)
    for line in ("# rte", "| recipe | rte |", "| seed | 7 |", "| odd | a \\| b |", "python run.py --x='a b'",
                 '| weights | a "base" |', "| data | x.tfrecord, dev: 1.tsv |", "| eval_accuracy | 0.7500 |",
                 "| global_step | 20 |", 'model = albert_tf.from_pretrained("rte", model="classifier")',
                 'tokenizer = albert_tf.tokenizer_from_pretrained("rte")',
                 "An ALBERT with 3 layers, hidden size 8, embedding size 4 and a vocabulary of 1,000 pieces."):
        assert line in text.splitlines(), line
    assert f"| versions | albert_tf {albert_tf.__version__}, TensorFlow " in text
    assert "nan" not in text and "empty" not in text
    assert yaml.safe_load(text.split("---\n")[1])["albert_tf"]["manifests"] == {"x.tfrecord": dict(dupe_factor=5)}
    fields = header(text)
    assert "# license: to be chosen by you\n# language: that of the text, for example en\n" in text
    assert "base_model" not in fields and fields["datasets"] == ["x.tfrecord", "dev: 1.tsv"]
    assert fields["pipeline_tag"] == "text-classification" and fields["metrics"] == ["eval_accuracy"]
    assert fields["tags"] == ["albert", "tensorflow"] and fields["library_name"] == "albert_tf"
    result, = fields["model-index"][0]["results"]
    assert result["metrics"] == [dict(type="eval_accuracy", name="eval_accuracy", value=0.75)]
    assert result["dataset"] == dict(type="file", name="x.tfrecord, dev: 1.tsv")
    on_dev = header(card_of(tmp_path / "rte", AlbertClassifier(CONFIG, 2), evaluated_on="dev: 1.tsv", **FACTS))
    assert on_dev["model-index"][0]["results"][0]["dataset"]["name"] == "dev: 1.tsv"
    plain = card_of(tmp_path / "x", AlbertModel(CONFIG))
    assert set(header(plain)) == {"library_name", "pipeline_tag", "tags"}
    assert "## Scores" not in plain and "| weights |" not in plain and "```bash" not in plain


@pytest.mark.parametrize("make, library, lines", [
    (AlbertPretrainer, "transformers", [
        'With transformers: `AlbertForPreTraining.from_pretrained("there")`',
        'albert_tf.fill_masks(model, tokenizer, "A text with a [MASK].")']),
    (lambda config: AlbertClassifier(config, 2), "transformers", [
        'With transformers: `AlbertForSequenceClassification.from_pretrained("there")`',
        'albert_tf.classify_texts(model, tokenizer, ["A text."])']),
    (AlbertSentenceEncoder, "sentence-transformers", [
        'With sentence-transformers: `SentenceTransformer("there")`']),
])
def test_the_card_of_a_hugging_face_folder_shows_how_both_libraries_load_it(tmp_path, make, library, lines):
    save(make(CONFIG), str(tmp_path / "there"), "hugging_face")
    text = (tmp_path / "there/README.md").read_text()
    assert header(text)["library_name"] == library
    for line in lines:
        assert line in text.splitlines(), line


@pytest.mark.parametrize("num_labels", [3, 1])
def test_the_python_of_a_card_runs_for_classifiers_and_regressions(sentence_pieces, tmp_path, monkeypatch, num_labels):
    config = CONFIG.replace(vocab_size=sentence_pieces.vocab_size)
    save(AlbertClassifier(config, num_labels), str(tmp_path / "tuned"), "ours",
         VocabularyFiles.from_tokenizer(sentence_pieces))
    block, = re.findall(r"```python\n(.*?)```", (tmp_path / "tuned/README.md").read_text(), re.S)
    *lines, last = block.splitlines()
    names: dict = {}
    monkeypatch.chdir(tmp_path)
    exec("\n".join(lines), names)
    answer = eval(last, names)
    if num_labels == 1:
        np.testing.assert_allclose(answer, text_logits(names["model"], names["tokenizer"], ["A text."]), atol=1e-6)
    else:
        assert {label.name for label in answer[0]} == {"0", "1", "2"}


def test_a_card_is_replaced_but_not_what_a_user_fills_in_or_writes(tmp_path):
    card_of(tmp_path, AlbertClassifier(CONFIG, 2), **FACTS)
    path = tmp_path / "README.md"
    path.write_text(path.read_text().replace("# license: to be chosen by you", "license: mit").replace(
        "# language: that of the text, for example en", "language:\n- de\n- en"))
    fields = header(card_of(tmp_path, AlbertModel(CONFIG)))
    assert fields["pipeline_tag"] == "feature-extraction" and "to be chosen" not in path.read_text()
    assert fields["license"] == "mit" and fields["language"] == ["de", "en"]
    path.write_text("My model.\n")
    assert card_of(tmp_path, AlbertClassifier(CONFIG, 2), **FACTS) == "My model.\n"


FIELDS = dict(library_name="albert_tf", pipeline_tag="feature-extraction", tags=["albert", "tensorflow"])


@pytest.mark.parametrize("card, is_conversion, fields", [
    ("---\nlicense: mit\nlanguage: de\ndatasets: [novels]\n---\nlanguage: fr\n", False, dict(language="de")),
    ("---\nlicense: mit\nlanguage: en\n---\n\n## Limits\n", True, dict(license="mit", language="en")),
    ("---\nbase_model: org/tiny\n---\n", False, dict(base_model="org/tiny")),
    ("---\nbase_model: org/tiny\n---\n", True, dict(base_model="org/tiny"))])
def test_training_takes_the_language_of_the_base_model_and_a_conversion_its_license_too(
        tmp_path, card, is_conversion, fields):
    write(tmp_path / "base", card)
    text = card_of(tmp_path / "new", AlbertModel(CONFIG), str(tmp_path / "base/"), is_conversion)
    assert header(text) == {**FIELDS, **fields} and str(tmp_path) not in text and "Limits" not in text


NESTED = "".join(f"{name}: &{name} [*{base}, *{base}]\n" for base, name in zip(ascii_lowercase, ascii_lowercase[1:]))


@pytest.mark.parametrize("broken", [
    "license: [mit\n", "- license\n", "", "license: " + "[" * 3000 + "\n", "license: 2026-13-45\n",
    f"license: {'1' * 5000}\n", "license: mit\n? [a, b]\n: c\n", "license: &a [*a]\n",
    f"a: &a [x, x]\n{NESTED}license: *z\n", f"license: mit\nx: {'y' * 70_000}\n"],
    ids=["cut", "list", "empty", "deep", "date", "digits", "keys", "circle", "nested anchors", "long"])
def test_a_header_that_cannot_be_read_is_none(tmp_path, broken):
    write(tmp_path / "base", f"---\n{broken}---\n")
    text = card_of(tmp_path / "new", AlbertModel(CONFIG), str(tmp_path / "base"), is_conversion=True)
    assert header(text) == FIELDS and "| weights | base |" in text
    write(tmp_path / "new", text.replace("library_name: ", f"{broken}library_name: "))
    write_calibration(str(tmp_path / "new"), dict(temperature=1.0))
    assert header(card_of(tmp_path / "new", AlbertModel(CONFIG))) == FIELDS


@pytest.mark.parametrize("facts", ["x", "[1]", "{made_from: x}", "{made_from: {a: b}, scores: 1}"])
def test_facts_of_another_shape_are_none(tmp_path, facts):
    write(tmp_path / "base", f"---\nlicense: mit\nalbert_tf: {facts}\n---\n")
    text = card_of(tmp_path / "new", AlbertModel(CONFIG), str(tmp_path / "base"), is_conversion=True)
    assert header(text) == dict(FIELDS, license="mit") and "| weights | base |" in text


def test_an_error_of_a_card_is_a_warning(tmp_path, monkeypatch, caplog):
    def fail(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(model_card, "write_text", fail)
    save(AlbertClassifier(CONFIG, 2), str(tmp_path / "a"), "hugging_face")
    write_calibration(str(tmp_path / "a"), dict(temperature=1.0))
    assert f"{tmp_path}/a/README.md cannot be written: [Errno 28] No space left on device" in caplog.text
    assert open_model(str(tmp_path / "a")).config == CONFIG


@pytest.fixture(scope="module")
def run(tmp_path_factory, golden):
    """The directory of a run with its card, its best checkpoint and another one."""
    directory = tmp_path_factory.mktemp("runs") / "tiny"
    model = AlbertPretrainer(CONFIG)
    save(model, str(directory), "tf1", VocabularyFiles(str(golden / "tiny_spm/tiny.model")))
    for ending in ("index", "data-00000-of-00001"):
        (directory / f"model.ckpt-20.{ending}").write_bytes((directory / f"model.ckpt-best.{ending}").read_bytes())
    training = Training(optimizer="lamb", learning_rate=0.5, random_seed=7, train_batch_size=4)
    write_run_card(model, str(directory), Schedule(20), training, "python run.py",
                   datasets={"novels.tfrecord": dict(seed=1)}, scores=dict(masked_lm_accuracy=0.25, global_step=3))
    return directory


def test_the_card_of_a_run_has_its_options_and_labels(tmp_path, run):
    text = (run / "README.md").read_text()
    for row in ("| initial weights | random |", "| seed | 7 |", "| training steps | 20 |", "| batch size | 4 |",
                "| optimizer | lamb |", "| learning rate | 0.5 |", "| precision | float32 |"):
        assert row in text.splitlines(), row
    model = AlbertClassifier(CONFIG, 2, label_names=("<b>*bad*", "good | fair"))
    write_run_card(model, str(tmp_path), Schedule(20), Training(), "python run.py")
    text = (tmp_path / "README.md").read_text()
    assert "| labels | &lt;b&gt;\\*bad\\*, good \\| fair |" in text.splitlines()
    assert yaml.safe_load(text.split("---\n")[1])["albert_tf"]["made_from"]["labels"] == "<b>*bad*, good | fair"
    write_run_card(AlbertClassifier(CONFIG, 1), str(tmp_path), Schedule(20), Training(), "python run.py")
    assert "| labels |" not in (tmp_path / "README.md").read_text()


@pytest.mark.parametrize("to", ["ours", "tf1", "hugging_face", pytest.param("tf_hub", marks=pytest.mark.long)])
def test_a_conversion_has_the_data_scores_and_origin_of_its_weights(tmp_path, run, to):
    convert(open_model(str(run)), str(tmp_path / "once"), to)
    text = (tmp_path / "once/README.md").read_text()
    fields = header(text)
    assert "base_model" not in fields and fields["datasets"] == ["novels.tfrecord"]
    assert fields["metrics"] == ["masked_lm_accuracy"] and fields["pipeline_tag"] == "fill-mask"
    for line in (f"| format | {to} |", "| weights | tiny/model.ckpt-best |", "| seed | 7 |", "python run.py",
                 "| masked_lm_accuracy | 0.2500 |"):
        assert line in text.splitlines(), line
    if to != "hugging_face":
        return
    convert(open_model(str(tmp_path / "once")), str(tmp_path / "twice"), "ours")
    text = (tmp_path / "twice/README.md").read_text()
    assert header(text)["metrics"] == ["masked_lm_accuracy"] and text.count("versions |") == 1
    for line in ("| weights | once, from tiny/model.ckpt-best |", "| seed | 7 |", "| format | ours |",
                 "| masked_lm_accuracy | 0.2500 |"):
        assert text.splitlines().count(line) == 1, line
    convert(open_model(str(run / "model.ckpt-20")), str(tmp_path / "other"), "ours")  # not the best: no scores
    text = (tmp_path / "other/README.md").read_text()
    assert "| weights | tiny/model.ckpt-20 |" in text.splitlines() and "metrics" not in header(text)
    assert "Scores" not in text


def test_a_base_model_is_a_url_an_archive_or_a_name(tmp_path):
    url = "https://tfhub.dev/google/albert_base/3"
    assert model_name(url) == url and model_name("a/base.tar.gz") == "base.tar.gz"
    (tmp_path / "base.tar.gz").write_bytes(b"")
    for base_model in (url, str(tmp_path / "base.tar.gz"), "albert_tiny_en"):
        fields = header(card_of(tmp_path, AlbertModel(CONFIG), base_model))
    assert fields["base_model"] == "albert_tiny_en" and fields["language"] == "en" and "license" not in fields


def test_a_calibration_is_a_section_of_the_card_and_of_the_cards_of_conversions(tmp_path):
    folder = tmp_path / "moods"
    save(AlbertClassifier(CONFIG, 2), str(folder), "tf1")
    body = (folder / "README.md").read_text().split("---\n", 2)[2]
    for temperature in (1.25, 1.5):  # the second one replaces the first one
        write_calibration(str(folder), {"temperature": temperature, "expected_calibration_error": 0.03125,
                                        "expected_calibration_error_before": 0.25, "threshold/odd": 0.75})
    text = (folder / "README.md").read_text()
    assert text.split("---\n", 2)[2].startswith(body.rstrip("\n")) and text.count("## Calibration") == 1
    rows = ["| temperature | 1.5000 |", "| expected_calibration_error | 0.0312 |",
            "| expected_calibration_error_before | 0.2500 |", "| threshold/odd | 0.7500 |"]
    assert text.splitlines()[-4:] == rows
    convert(open_model(str(folder)), str(tmp_path / "converted"), "ours", "classifier")
    assert "\n".join(rows) in (tmp_path / "converted/README.md").read_text()
    (folder / "README.md").write_text("My model.\n")
    write_calibration(str(folder), dict(temperature=1.0))
    write_calibration(str(tmp_path), dict(temperature=1.0))
    assert (folder / "README.md").read_text() == "My model.\n" and not (tmp_path / "README.md").exists()
