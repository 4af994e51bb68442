"""Scores sentences by a masked language model: their pseudo-log-likelihood, and accuracy on minimal pairs (BLiMP).

    python examples/score_sentences.py --init_checkpoint=albert_tiny_en lines.txt
    python examples/score_sentences.py --init_checkpoint=albert_tiny_en --pairs blimp/*.jsonl

Each piece of a sentence is masked once, and the score is the sum of the log-probabilities of the masked pieces, in nats
(Salazar et al., 2020). The first form prints the score of each line. The second form prints the share of pairs whose
grammatical sentence has the higher score, as the BabyLM challenge counts it: by file, by field, as the mean over the
files, and over all pairs. A tie counts as half. Files of pairs are JSON lines, in which "field" is optional:

    {"sentence_good": "The cats annoy Tim.", "sentence_bad": "The cats annoys Tim.", "field": "morphology"}
"""

import argparse
import collections
import itertools
import json
import pathlib

import numpy as np
import tensorflow as tf

import albert_tf
from albert_tf.text.tokenization import word_starts


def score_sentences(model, tokenizer, sentences, within_word_l2r=False, tokens_per_batch=8192):
    """The pseudo-log-likelihood of each sentence, float64 [sentences].

    With within_word_l2r, the pieces to the right of the scored one in the same word are masked, too. Without it, the
    scores of words of several pieces are too high.
    """
    rows = [np.array([tokenizer.cls_id, *tokenizer.encode(text), tokenizer.sep_id]) for text in sentences]
    for row, text in zip(rows, sentences):
        if len(row) > model.config.max_position_embeddings:
            raise ValueError(f"{len(row)} tokens exceed the model's {model.config.max_position_embeddings}: {text}")
    starts = word_starts(tokenizer) if within_word_l2r else np.ones(max(tokenizer.vocab.values()) + 1, bool)
    words = [np.cumsum(starts[row] | (row == tokenizer.sep_id)) for row in rows]  # the number of each token's word
    copies = sorted((len(row), number, place) for number, row in enumerate(rows) for place in range(1, len(row) - 1))
    scores = np.zeros(len(rows))
    for length, of_length in itertools.groupby(copies, key=lambda copy: copy[0]):
        while batch := [*itertools.islice(of_length, max(1, tokens_per_batch // length))]:
            _, numbers, places = np.array(batch).T
            ids, word = (np.stack([values[number] for number in numbers]) for values in (rows, words))  # [copies, seq]
            of_word = word == np.take_along_axis(word, places[:, None], axis=1)
            masked = np.where(of_word & (np.arange(length) >= places[:, None]), tokenizer.mask_id, ids)
            outputs = model(dict(input_ids=masked, input_mask=np.ones_like(ids), segment_ids=np.zeros_like(ids),
                                 masked_lm_positions=places[:, None]))
            logits = tf.cast(outputs["mlm_logits"][:, 0], tf.float32)  # [copies, vocab]
            targets = ids[np.arange(len(ids)), places]
            np.add.at(scores, numbers, -tf.nn.sparse_softmax_cross_entropy_with_logits(targets, logits).numpy())
    return scores


def accuracies(pairs, scores):
    """Results of pairs (the name of the file and the JSON object of each) from scores of good, bad, good, bad ..."""
    right = (1 + np.sign(scores[::2] - scores[1::2])) / 2  # 1, 0.5 for a tie, or 0
    files, fields = collections.defaultdict(list), collections.defaultdict(list)
    for (name, pair), value in zip(pairs, right):
        files[name].append(value)
        if pair.get("field"):  # one of BLiMP's files spells it in the second way
            fields[pair["field"].replace("syntax_semantics", "syntax/semantics")].append(value)
    files, fields = ({name: float(np.mean(values)) for name, values in groups.items()} for groups in (files, fields))
    return dict(files=files, fields=fields, mean_of_files=float(np.mean([*files.values()])), all=float(np.mean(right)))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--init_checkpoint", required=True, help="the model, as in from_pretrained")
    parser.add_argument("--pairs", action="store_true", help="the files have minimal pairs")
    parser.add_argument("--within_word_l2r", action="store_true", help="mask the rest of each word, too")
    parser.add_argument("files", nargs="+", type=pathlib.Path)
    options = parser.parse_args()
    lines = [(path.stem, line) for path in options.files for line in path.read_text("utf-8").splitlines()]
    pairs = [(name, json.loads(line)) for name, line in lines] if options.pairs else []
    sentences = [pair[key] for _, pair in pairs for key in ("sentence_good", "sentence_bad")]
    sentences = sentences or [line for _, line in lines]
    model = albert_tf.from_pretrained(options.init_checkpoint, model="pretrainer")
    tokenizer = albert_tf.tokenizer_from_pretrained(options.init_checkpoint)
    scores = score_sentences(model, tokenizer, sentences, options.within_word_l2r)
    if pairs:
        print(json.dumps(accuracies(pairs, scores), indent=2))
    else:
        print(*(f"{score:.4f}\t{sentence}" for score, sentence in zip(scores, sentences)), sep="\n")


if __name__ == "__main__":
    main()
