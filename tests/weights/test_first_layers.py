"""A model is cut to its first layers: any head, any sharing, in files, in Python and by a command."""


import numpy as np
import pytest
from in_process import loaded

import albert_tf
from albert_tf.config import AlbertConfig
from albert_tf.export.conversion import save
from albert_tf.weights.from_pretrained import build
from albert_tf.weights.heads import HEAD_NAMES, head_named
from albert_tf.weights.stored_model import open_model
from albert_tf.weights.transforms import first_layers
from albert_tf.weights.vocabulary import VocabularyFiles

BERT = AlbertConfig(vocab_size=20, embedding_size=8, hidden_size=8, num_hidden_layers=4, num_attention_heads=2,
                    intermediate_size=16, max_position_embeddings=16, initializer_range=0.5,
                    cross_layer_sharing="none")
ALBERT = BERT.replace(embedding_size=4, cross_layer_sharing="all")
CONFIGS = {"all": ALBERT, "BERT": BERT, "groups": ALBERT.replace(num_hidden_groups=2),
           "inner groups": ALBERT.replace(inner_group_num=2), "attention": ALBERT.replace(
               cross_layer_sharing="attention")}
INPUTS = dict(input_ids=np.random.default_rng(0).integers(1, 20, [8, 8], np.int32), input_mask=np.ones([8, 8], int),
              segment_ids=np.zeros([8, 8], int))


def made(head, config):
    arguments = dict(num_labels=3) if "classifier" in head else {}
    return head_named(head).model(config, **arguments)


@pytest.mark.parametrize("head, config, number", [
    *((head, "all", 3) for head in HEAD_NAMES), ("classifier", "all", 1), ("classifier", "BERT", 1),
    ("classifier", "groups", 3), ("classifier", "inner groups", 1), ("classifier", "attention", 3)])
def test_a_cut_model_has_the_output_of_its_last_layer_and_the_same_head(tmp_path, caplog, head, config, number):
    model = made(head, CONFIGS[config])
    save(model, str(tmp_path), "ours")
    cut, report = build(first_layers(open_model(str(tmp_path)), number), head)
    assert cut.config.num_hidden_layers == number and not report.not_used and not report.not_restored
    encoder, whole = (getattr(each, "albert", each) for each in (cut, model))
    expected = whole(INPUTS)["encoder_outputs"][number * whole.config.inner_group_num - 1]
    np.testing.assert_allclose(encoder(INPUTS)["sequence_output"], expected, atol=1e-5)
    weights = {weight.name: weight for weight in model.weights}
    for weight in cut.weights:
        if "/transformer/" not in weight.name:
            np.testing.assert_array_equal(weight, weights[weight.name])
    assert f"{tmp_path} was trained with 4 layers and is cut to the first {number}" in caplog.text


def test_depths_that_a_sentence_encoder_was_trained_for_are_no_warning(tmp_path, caplog):
    save(albert_tf.AlbertSentenceEncoder(ALBERT, distillation_depths=(1, 3)), str(tmp_path / "whole"), "ours")
    cut = albert_tf.from_pretrained(str(tmp_path / "whole"), "sentence_encoder", num_layers=3)
    assert cut.settings.distillation_depths == (1,) and "was trained with" not in caplog.text
    albert_tf.from_pretrained(str(tmp_path / "whole"), "sentence_encoder", num_layers=2)
    assert caplog.text.count("whole was trained with 4 layers and is cut to the first 2") == 1


@pytest.mark.parametrize("number", [0, 5])
def test_a_wrong_number_of_layers_is_named(tmp_path, number):
    save(made("classifier", ALBERT), str(tmp_path), "ours")
    with pytest.raises(ValueError, match="num_layers must be a whole number from 1 to 4. Received"):
        albert_tf.from_pretrained(str(tmp_path), "classifier", num_layers=number)


def test_a_command_evaluates_and_predicts_with_the_first_layers(tmp_path, golden, sentence_pieces, capsys):
    model = albert_tf.AlbertClassifier(ALBERT.replace(vocab_size=2000), 2,
                                       label_names=("entailment", "not_entailment"))
    save(model, str(tmp_path / "whole"), "ours", VocabularyFiles.from_tokenizer(sentence_pieces))
    flags = dict(task_name="rte", data_dir=golden / "glue", do_predict=True, predict_split="dev", num_layers=2)
    with loaded("convert_checkpoint") as run:
        assert run(init_checkpoint=tmp_path / "whole", output_dir=tmp_path / "cut", to="ours", num_layers=2) == 0
    answers = []
    for weights, directory, num_layers in (("whole", "of_whole", 2), ("cut", "of_cut", None), (None, "whole", 2)):
        with loaded("run_classifier") as run:
            assert run(init_checkpoint=weights and tmp_path / weights, output_dir=tmp_path / directory,
                       **dict(flags, num_layers=num_layers)) == 0
        answers.append(np.loadtxt(tmp_path / directory / "dev_results.tsv"))
    np.testing.assert_allclose(answers[1:], [answers[0]] * 2, atol=1e-6)
    with loaded("run_squad") as run:
        assert run(init_checkpoint=tmp_path / "whole", output_dir=tmp_path / "squad", do_train=True, num_layers=2,
                   train_file=tmp_path / "train.json") == 1
    assert "--num_layers cuts a trained model: train without it" in capsys.readouterr().err
