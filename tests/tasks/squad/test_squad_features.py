"""SQuAD features: equal to the release's, field by field; alignment equal to the longest common subsequence."""

import json
import random
import time

import numpy as np
import pytest

from albert_tf.tasks.squad import convert_examples_to_features, read_squad_examples
from albert_tf.tasks.squad.alignment import align_paragraphs
from albert_tf.tasks.squad.features import FeatureOptions, default_doc_stride, feature_blocks
from albert_tf.tasks.squad.reading import SquadExample
from albert_tf.text.pieces import preprocess_text
from albert_tf.text.tokenization import FullTokenizer

pytestmark = pytest.mark.both_stacks

FILES = [("features_train", "train.json"), ("features_predict", "dev.json"), ("features_predict_v1", "dev_v1.json")]


@pytest.fixture
def tokenizer(sentence_pieces):
    return sentence_pieces


def read(golden, name, input_file):
    expected = json.loads((golden / f"squad/{name}.json").read_text())
    return expected, read_squad_examples(str(golden / "squad" / input_file), expected["is_training"])


def options(expected):
    return dict(max_seq_length=expected["max_seq_length"], doc_stride=expected["doc_stride"],
                max_query_length=expected["max_query_length"], is_training=expected["is_training"])


@pytest.mark.parametrize("name, input_file", FILES)
def test_examples_are_the_releases(golden, name, input_file):
    expected, examples = read(golden, name, input_file)
    assert len(examples) == len(expected["examples"])
    for example, fields in zip(examples, expected["examples"]):
        assert {field: getattr(example, field) for field in fields} == fields


@pytest.mark.parametrize("name, input_file", FILES)
@pytest.mark.parametrize("release_compatible", [False, True])
def test_features_are_the_releases_field_by_field(golden, tokenizer, name, input_file, release_compatible):
    expected, examples = read(golden, name, input_file)
    features = list(convert_examples_to_features(examples, tokenizer, **options(expected),
                                                 release_compatible=release_compatible))
    ignored = set()
    if not release_compatible:  # the questions that the release drops are kept, and the ids after them go on
        ignored = {"unique_id"}
        assert set(expected["dropped_qas_ids"]) < {feature.qas_id for feature in features}
        features = [feature for feature in features if feature.qas_id not in expected["dropped_qas_ids"]]
    assert len(features) == len(expected["features"])
    for feature, fields in zip(features, expected["features"]):
        found = {field: getattr(feature, field) for field in fields}
        found["token_is_max_context"] = {str(token): value for token, value in found["token_is_max_context"].items()}
        for field in fields.keys() - ignored:
            assert found[field] == fields[field], (feature.qas_id, feature.doc_span_index, field)


def test_several_processes_make_the_same_features(golden, tokenizer):
    expected, examples = read(golden, *FILES[0])
    paragraphs = [[example] for example in examples] * 40
    lengths = FeatureOptions(**options(expected))
    made = [list(feature_blocks(paragraphs, tokenizer, lengths, workers)) for workers in (1, 2)]
    assert len(made[0]) == len(made[1]) > 3
    for one, two in zip(*made):
        for name, values in vars(one).items():
            np.testing.assert_array_equal(values, getattr(two, name), err_msg=name)


# --- alignment -------------------------------------------------------------------------------------------------------


def subsequence_matches(text, surface, lower=True):
    """The release's rule: the longest common subsequence, and among several the first one when read from the end."""
    forms = [preprocess_text(character, remove_space=False, lower=lower) for character in text]
    table = np.zeros([len(text) + 1, len(surface) + 1], int)
    for i, form in enumerate(forms):
        for j, character in enumerate(surface):
            table[i + 1, j + 1] = max(table[i, j + 1], table[i + 1, j], (table[i, j] + 1) * (form == character))
    matches, i, j = [None] * len(surface), len(text), len(surface)
    while i and j:
        if table[i - 1, j] == table[i, j]:
            i -= 1
        elif table[i, j - 1] == table[i, j]:
            j -= 1
        else:
            i, j = i - 1, j - 1
            matches[j] = i
    return matches, table[-1, -1]


def places_by_subsequence(text, pieces):
    """Starts and ends of pieces, and the first and last piece of each character, by the release's rule."""
    surface = "".join(pieces).replace("▁", " ")
    matches, matched = subsequence_matches(text, surface)
    if matched < 0.8 * len(text):
        return None
    starts, ends, end = [], [], 0
    for piece in pieces:
        start, end = end, end + len(piece)
        starts.append(place(matches, start, len(text), is_start=True))
        ends.append(place(matches, end - 1, len(text), is_start=False))
    places = [matches.index(i) if i in matches else None for i in range(len(text))]
    piece_of = [number for number, piece in enumerate(pieces) for _ in piece]
    return starts, ends, [tuple(piece_of[place(places, i, None, is_start)] for is_start in (True, False))
                          for i in range(len(text))]


def place(matches, position, size, is_start):
    if matches[position] is not None:
        return matches[position]
    before = next((match for match in matches[position::-1] if match is not None), None)
    after = next((match for match in matches[position:] if match is not None), None)
    if before is None:
        return 0 if is_start else max(after - 1, 0)
    if after is None:
        return before if size is None else min(before + 1, size - 1) if is_start else size - 1
    if is_start:
        return before + 1 if after > before + 1 else after
    return after - 1 if after > before + 1 else before


PARTS = ["a", "the", "red", "door", "1", "2", "1,764", "2,300", "12,", ",", ".", " ", " ", " ", "  ", "\t", "\xa0",
         "\n", "…", "½", "ﬁ", "é", "e\u0301", "№", "🦦", "\u2028", "“", "´", "Σ", "İ", "㎏", "..", "ß", "\u200d", "ｗ"]


def test_offsets_equal_those_of_the_longest_common_subsequence(tokenizer):
    rng, compared = random.Random(1), 0
    for _ in range(1200):
        text = "".join(rng.choices(PARTS, k=rng.randrange(3, 25)))
        pieces = tokenizer.tokenize(preprocess_text(text, lower=True))
        expected = places_by_subsequence(text, pieces) if pieces else None
        if expected:
            (aligned,) = align_paragraphs(tokenizer, [text])
            spans = [aligned.pieces_of(i, i) for i in range(len(text))]
            assert (aligned.starts.tolist(), aligned.ends.tolist(), spans) == expected, (text, pieces)
            compared += 1
    assert compared > 500


def test_word_pieces_have_the_offsets_of_their_characters(word_pieces):
    text = "The  Café's\tÉLAN\x00, …\u2028 xyzzyq 中文"
    (aligned,) = align_paragraphs(word_pieces, [text])
    pieces = word_pieces.tokenize(text)
    assert len(pieces) == len(aligned.ids) > 5
    for piece, start, end in zip(pieces, aligned.starts, aligned.ends):
        original = preprocess_text(text[start : end + 1], lower=True)
        assert piece == "[UNK]" or original.strip("\x00") == piece.replace("##", ""), piece


def test_paragraphs_without_much_in_common_are_aligned_by_offsets_alone(tokenizer):
    text = "한국어 문장은 짧다 (a)"  # SentencePiece composes what NFKD took apart: no character equals its own form
    (aligned,) = align_paragraphs(tokenizer, [text])
    assert not aligned.is_matched
    assert aligned.ends[-1] == len(text) - 1 and np.all(np.diff(aligned.starts) >= 0)


@pytest.mark.long
@pytest.mark.parametrize("part", ["word, ", "…", "1,2 \t", " "], ids=["words", "grows", "dense with gaps", "blanks"])
def test_a_context_of_a_megabyte_is_aligned_in_linear_time(tokenizer, part):
    text = part * (1_000_000 // len(part)) + "end"
    start = time.process_time()  # of this process: what else the machine does makes no difference
    (aligned,) = align_paragraphs(tokenizer, [text])
    assert len(aligned.ids)
    assert time.process_time() - start < 60  # a few seconds; in quadratic time hours


@pytest.mark.parametrize("lengths, message", [
    ((67, 128, 64), "max_seq_length=67 leaves no tokens for a paragraph after a question of max_query_length=64 "
     "and 3 special tokens: set a larger --max_seq_length or a smaller --max_query_length"),
    ((384, 0, 64), "doc_stride must be at least 1"), ((384, 128, 0), "max_query_length and doc_stride must be"),
    ((384, 318, 64), "doc_stride=318 is more than the 317 pieces of a window .* Use a doc_stride of at most 317")])
def test_lengths_that_make_no_sense_are_refused(tokenizer, lengths, message):
    with pytest.raises(ValueError, match=message):
        convert_examples_to_features([], tokenizer, *lengths, is_training=True)


def test_an_empty_question_has_features_and_an_empty_context_has_none(tokenizer):
    examples = [SquadExample("a", "", "Some text."), SquadExample("b", "Who?", " \n "), SquadExample("c", "Who?", "")]
    features = list(convert_examples_to_features(examples, tokenizer, 32, 8, 8, is_training=False))
    assert [feature.qas_id for feature in features] == ["a"]
    assert features[0].tokens[:2] == ["[CLS]", "[SEP]"]


def test_an_answer_that_cannot_be_placed_and_an_empty_context_are_left_out_of_training_and_counted(tokenizer, caplog):
    examples = [SquadExample("a", "Who?", " \n ", "\n", 1), SquadExample("b", "Who?", "Ada did.", "Ada", 0),
                SquadExample("c", "Who?", " ", "", -1, is_impossible=True),
                SquadExample("d", "Who?", "\u0301", "", -1, is_impossible=True)]
    features = convert_examples_to_features(examples, tokenizer, 32, 8, 8, is_training=True)
    assert [feature.qas_id for feature in features] == ["b"]
    assert "3 questions left out" in caplog.text


@pytest.mark.real_data
def test_no_real_question_is_dropped(real_data):
    tokenizer = FullTokenizer(spm_model_file=str(real_data / "spm/30k-clean.model"))
    for name, is_training in (("train-v2.0.json", True), ("dev-v1.1.json", False)):
        examples = read_squad_examples(str(real_data / "squad" / name), is_training)
        features = convert_examples_to_features(examples, tokenizer, 384, 128, 64, is_training, release_compatible=True)
        assert {feature.qas_id for feature in features} == {example.qas_id for example in examples}


@pytest.mark.parametrize("max_seq_length, expected", [(384, 128), (195, 128), (194, 127), (128, 61), (60, 1)])
def test_the_default_stride_leaves_no_gap_between_windows(max_seq_length, expected):
    assert default_doc_stride(max_seq_length, 64) == expected
