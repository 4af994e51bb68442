"""The table docs/foreign_keys.csv: each key is followed, refused or ignored as it says."""

import csv
import json
import pathlib
import shutil

import numpy as np
import pytest

import albert_tf
from albert_tf.utils.foreign_keys import REFUSED
from albert_tf.weights.stored_model import open_model

pytestmark = pytest.mark.both_stacks
with open(pathlib.Path(__file__).parents[2] / "docs/foreign_keys.csv", encoding="utf-8", newline="") as table:
    ROWS = list(csv.DictReader(table))
TEXTS = ["The NAME of the file", "The boàt 名前 ?"]
BERT, ALBERT, KERAS_HUB = "sentence_transformers/cls", "hf/sequence_classification", "keras_hub/classifier"
NAMED_TOKENS = dict(cls_token="<s>", sep_token=dict(content="</s>"), mask_token="<mask>", unk_token="[PAD]")
# By file and key: the golden folder, if it is not the file's, and a value that is not the folder's.
VALUES = {
    "config.json": (BERT, dict(
        vocab_size=9, embedding_size=(ALBERT, 5), hidden_size=4, num_hidden_layers=1, num_hidden_groups=(ALBERT, 3),
        num_attention_heads=4, intermediate_size=4, inner_group_num=(ALBERT, 2), hidden_act="gelu_new",
        hidden_dropout_prob=0.5, attention_probs_dropout_prob=0.5, max_position_embeddings=8, type_vocab_size=1,
        initializer_range=0.5, architectures=(ALBERT, ["AlbertForTokenClassification"]),
        id2label=(ALBERT, {"0": "a", "1": "b", "2": "c"}), problem_type=(ALBERT, "multi_label_classification"),
        layer_norm_eps=1e-2, model_type="roberta", position_embedding_type="relative_key", tie_word_embeddings=False,
        is_decoder=True, add_cross_attention=True, pruned_heads={"0": [1]}, per_layer_config={"0": {}},
        quantization_config=dict(load_in_8bit=True), auto_map=dict(AutoModel="modeling.Model"),
        configuration_files=["config.4.0.0.json"], transformers_weights="other.safetensors",
        tokenizer_class=(ALBERT, "XLMRobertaTokenizer"),
        classifier_dropout=0.5, classifier_dropout_prob=0.5, label2id=dict(a=0), num_labels=5, dtype="float16",
        pad_token_id=1, use_cache=True, output_hidden_states=True, chunk_size_feed_forward=4, temperature=0.5,
        max_length=20)),
    "tokenizer_config.json": (BERT, dict(
        do_lower_case=False, strip_accents=False, keep_accents=True, model_max_length=8,
        model_input_names=["input_ids"],
        tokenizer_class=(ALBERT, "BertJapaneseTokenizer"), auto_map=dict(AutoTokenizer=["a.B", None]),
        tokenize_chinese_chars=False, **NAMED_TOKENS, add_prefix_space=(ALBERT, False), add_bos_token=True,
        add_eos_token=True, padding_side="left", truncation_side="left", split_special_tokens=True,
        added_tokens_decoder={"8": dict(content="the")}, additional_special_tokens=["NAME"],
        extra_special_tokens=["NAME"],
        backend="x", do_basic_tokenize=False, never_split=["a"], remove_space=False, sp_model_kwargs=dict(a=1),
        max_length=8, stride=4, clean_up_tokenization_spaces=True, chat_template="x", word_tokenizer_type="mecab")),
    "sentence_bert_config.json": (BERT, dict(
        max_seq_length=8, do_lower_case=True,
        transformer_task="fill-mask", modality_config=dict(text=dict(method_output_name="pooler_output")),
        module_output_name="sentence_embedding", processing_kwargs=dict(text=dict(max_length=8)),
        query_length=8, document_length=8, query_expansion=dict(length=32), tokenizer_name_or_path="other",
        **dict.fromkeys(("model_args", "model_kwargs", "tokenizer_args", "processor_kwargs", "config_args",
                         "config_kwargs"), dict(a=1)),
        unpad_inputs=True)),
    "modules.json": (BERT, dict(type="sentence_transformers.models.Dense", path="nowhere",
                                idx=7, name="pooling", kwargs=["task"])),
    "1_Pooling/config.json": (BERT, dict(pooling_mode="max", include_prompt=False, embedding_dimension=9,
                                         word_embedding_dimension=9)),
    "2_Normalize/config.json": ("sentence_transformers/mean_normalized", dict(
        module_input_name="token_embeddings", module_output_name="other")),
    "config_sentence_transformers.json": (BERT, dict(
        prompts=dict(query="find: "), default_prompt_name="query", truncate_dim=4,
        activation_fn=("sentence_transformers/cross_encoder", "torch.nn.modules.linear.Identity"),
        model_type="SparseEncoder", similarity_fn_name="dot",
        __version__=dict(transformers="9"), requirements=["a"], keep_in_fp32_modules=["a"])),
    "special_tokens_map.json": (BERT, dict(
        additional_special_tokens=["NAME"], extra_special_tokens=["NAME"], **NAMED_TOKENS, pad_token="[UNK]")),
    "added_tokens.json": (BERT, dict(NAME=10**6)),
    "tokenizer.json": (BERT, dict(
        added_tokens=[dict(id=10**6, content="NAME")], model=dict(type="BPE"), normalizer=None,
        pre_tokenizer=None, post_processor=None,
        truncation=dict(direction="Left"), padding=dict(direction="Left"), version="2.0", decoder=None)),
    "keras-hub's config.json": (KERAS_HUB, dict(
        class_name="BertBackbone", vocabulary_size=9, num_layers=2, num_heads=4, num_groups=1, num_inner_repetitions=1,
        embedding_dim=8, hidden_dim=4, intermediate_dim=8, dropout=0.5, max_sequence_length=8, num_segments=1,
        name="x", trainable=False, dtype="float16", registered_name="x")),
    "keras-hub's task.json": (KERAS_HUB, dict(
        class_name="AlbertMaskedLM", activation="sigmoid", num_classes=9, dropout=0.5, name="x")),
    "keras-hub's preprocessor.json": (KERAS_HUB, dict(
        sequence_length=8, truncate="waterfall", name="x", trainable=False)),
    "keras-hub's tokenizer.json": (KERAS_HUB, dict(
        add_bos=True, add_eos=True, sequence_length=8, proto="x", name="x")),
}
# Settings of both folders that are compared: here the tokenizer does not lower-case.
BESIDE = {("sentence_bert_config.json", "do_lower_case"): ("tokenizer_config.json", dict(do_lower_case=False))}


def keys(treatment):
    return [(row["file"], row["key"]) for row in ROWS if row["treatment"] == treatment]


def change(path, values):
    content = json.loads(path.read_text()) if path.exists() else {}
    for key, value in values.items():
        place = content[-1] if isinstance(content, list) else content
        (place if key in place else place.get("config", place))[key] = value
    path.write_text(json.dumps(content))


@pytest.fixture
def folders(golden, tmp_path):
    """Two copies of a golden folder, in the second of which keys of a file have the values of VALUES."""
    def copies(file, *names):
        default, values = VALUES[file]
        values = {name: values[name] if isinstance(values[name], tuple) else (default, values[name]) for name in names}
        source, = {source for source, _ in values.values()}
        for copy in ("original", "changed"):
            shutil.copytree(golden / source, tmp_path / copy)
            if (file, *names) in BESIDE:
                beside, settings = BESIDE[(file, *names)]
                change(tmp_path / copy / beside, settings)
        change(tmp_path / "changed" / file.rpartition(" ")[2], {name: value for name, (_, value) in values.items()})
        return tmp_path / "original", tmp_path / "changed"

    return copies


@pytest.fixture(scope="module")
def result_once():
    """Like `result`, computed once for folders of equal files."""
    results = {}

    def get(path):
        key = tuple(sorted((str(file.relative_to(path)), file.read_bytes()) for file in path.rglob("*")
                           if file.is_file()))
        if key not in results:
            results[key] = result(path)
        return results[key]

    return get


def result(path):
    """What a folder means: the config, the settings, the ids of texts, and the outputs of the model."""
    source = open_model(str(path))
    model = albert_tf.from_pretrained(str(path), model=source.head)
    inputs = dict(input_ids=[[2, 5, 7, 3, 9, 3]], input_mask=[[1] * 6], segment_ids=[[0] * 4 + [1] * 2])
    if source.vocabulary:
        inputs = albert_tf.tokenizer_from_pretrained(str(path))(TEXTS, TEXTS[::-1])
    inputs = {name: np.array(values, np.int32) for name, values in inputs.items()}
    outputs = {name: np.round(value, 4).tolist() for name, value in model(inputs).items()
               if name in ("sentence_embedding", "logits", "pooled_output")}
    inputs = {name: values.tolist() for name, values in inputs.items()}
    return json.dumps([repr(source.config), str(source.settings), inputs, outputs])


def test_the_table_has_the_keys_that_are_refused_and_those_that_are_tried_here():
    assert sorted(keys("refused")) == sorted((file, key) for file, values in REFUSED.items() for key in values)
    assert sorted((row["file"], row["key"]) for row in ROWS) == sorted(
        (file, key) for file, (_, values) in VALUES.items() for key in values)


@pytest.mark.parametrize("file, key", keys("followed"))
def test_a_followed_key_changes_the_result(folders, result_once, file, key):
    original, changed = folders(file, key)
    try:
        assert result(changed) != result_once(original)
    except ValueError as error:  # such as weights of another shape
        assert "\n" not in str(error)


@pytest.mark.parametrize("file, key", keys("refused"))
def test_a_refused_key_is_named_in_one_line(folders, file, key):
    with pytest.raises(ValueError, match=rf"{file.rpartition(' ')[2]}: {key} .* is not supported: \w.*\Z"):
        open_model(str(folders(file, key)[1]))


@pytest.mark.parametrize("file", [file for file in VALUES if file != "added_tokens.json"])  # its keys are tokens
def test_ignored_and_unknown_keys_change_nothing(folders, result_once, monkeypatch, file):
    folder, values = VALUES[file]
    monkeypatch.setitem(VALUES, file, (folder, dict(values, a_key_of_next_year=1)))
    original, changed = folders(file, *(key for name, key in keys("ignored") if name == file), "a_key_of_next_year")
    assert result(changed) == result_once(original)
