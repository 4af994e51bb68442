"""SQuAD for benchmarks/workers/fine_tuning_hugging_face.py, as run_qa.py (1.1) and run_qa_beam_search.py (2.0) train.

A task has the model, the examples and batches to train it on, and answers: {question id: text}. For SQuAD 2.0 these are
the best spans, whether the model predicts that there is an answer or not. Unlike in our script, a span may start in any
of the windows that have it, not only where it has the most context.
"""

import collections
import json

import torch
import transformers
from torch.nn import functional
from transformers.models.xlnet.modeling_xlnet import (
    XLNetPoolerAnswerClass,
    XLNetPoolerEndLogits,
    XLNetPoolerStartLogits,
)

from albert_tf.data.worker_pool import chunks
from benchmarks.workers.squad_hugging_face import read, span

OVERLAP = 48  # number of tokens that two windows of a paragraph share
N_BEST = 20  # 1.1: number of starts, and of ends, that are candidates
BEAM = 5  # 2.0: number of starts, and of ends of each
MAX_ANSWER = 30  # tokens


class Squad1:
    """SQuAD 1.1: start and end are predicted independently."""

    def __init__(self, options, tokenizer):
        self._options, self._tokenizer = options, tokenizer
        self.model = self._model()

    def _model(self):
        return transformers.AutoModelForQuestionAnswering.from_pretrained(self._options["model"])

    def training_examples(self):
        questions = read(self._options["train"])
        features, owners, offsets = self._windows(questions)
        found = []
        for row, owner in enumerate(owners):
            start, end = span(features.sequence_ids(row), offsets[row], *questions[owner][2:])
            found.append(dict(self._features(features, row), start_positions=start, end_positions=end))
        return found

    def _windows(self, questions):
        features = self._tokenizer([question for question, *_ in questions], [context for _, context, *_ in questions],
                                   truncation="only_second", max_length=self._options["length"], stride=OVERLAP,
                                   return_overflowing_tokens=True, return_offsets_mapping=True)
        return features, features["overflow_to_sample_mapping"], features["offset_mapping"]

    def _features(self, features, row):
        return {name: features[name][row] for name in ("input_ids", "attention_mask", "token_type_ids")}

    def batch(self, rows):
        return self._tokenizer.pad(rows, return_tensors="pt")

    def answers(self):
        self.model.eval()
        questions, ids = read(self._options["dev"]), question_ids(self._options["dev"])
        features, owners, offsets = self._windows(questions)
        candidates = collections.defaultdict(list)
        for rows in chunks(range(len(owners)), 16):
            with torch.no_grad(), torch.autocast("cpu", torch.bfloat16, enabled=self._options["bfloat16"]):
                outputs = self.model(**self.batch([self._features(features, row) for row in rows]))
            for i, row in enumerate(rows):
                sequences, context = features.sequence_ids(row), questions[owners[row]][1]
                for score, start, end in self._scored_spans(outputs, i, len(sequences)):
                    if sequences[start] == 1 and sequences[end] == 1 and start <= end < start + MAX_ANSWER:
                        text = context[offsets[row][start][0] : offsets[row][end][1]]
                        candidates[owners[row]].append((score, text))
        return {qas_id: max(candidates[owner], default=(0.0, ""), key=lambda candidate: candidate[0])[1]
                for owner, qas_id in enumerate(ids)}

    def _scored_spans(self, outputs, i, length):
        """(score, start, end) of the candidates in row i of a batch, which has `length` tokens without padding."""
        (starts, ends), count = (outputs.start_logits[i], outputs.end_logits[i]), min(N_BEST, length)
        best_starts, best_ends = (logits[:length].float().topk(count) for logits in (starts, ends))
        return [(start_score + end_score, start, end)
                for start_score, start in zip(*map(torch.Tensor.tolist, best_starts))
                for end_score, end in zip(*map(torch.Tensor.tolist, best_ends))]


class Squad2(Squad1):
    """SQuAD 2.0: the end depends on the start, and a logit says that there is no answer."""

    def _model(self):
        return ConditionalSpan(self._options["model"])

    def _features(self, features, row):
        # No answer starts or ends in the question or at a separator. [CLS], at position 0, means no answer.
        masked = [int(position > 0 and sequence != 1) for position, sequence in enumerate(features.sequence_ids(row))]
        return dict(super()._features(features, row), p_mask=masked)

    def batch(self, rows):
        masks = [torch.tensor(row["p_mask"]) for row in rows]
        padded = super().batch([{name: value for name, value in row.items() if name != "p_mask"} for row in rows])
        p_mask = torch.nn.utils.rnn.pad_sequence(masks, batch_first=True, padding_value=1)
        return dict(padded, p_mask=p_mask.float())

    def _scored_spans(self, outputs, i, length):
        return [(float(outputs.start_scores[i, k] + outputs.end_scores[i, j, k]), int(outputs.starts[i, k]),
                 int(outputs.ends[i, j, k])) for k in range(BEAM) for j in range(BEAM)]


Outputs = collections.namedtuple("Outputs", ["loss"])
Beam = collections.namedtuple("Beam", ["starts", "start_scores", "ends", "end_scores"])


class ConditionalSpan(torch.nn.Module):
    """An encoder with the heads of XLNetForQuestionAnswering, which the release of ALBERT has for SQuAD 2.0, too.

    As in the release, the logit that there is no answer is computed from [CLS] and the mean token, weighted by start
    probability, also in training, and its hidden layer has a dropout of 0.1. XLNetForQuestionAnswering takes the
    labelled start in training, and has no dropout. As in our model, logits are float32.
    """

    def __init__(self, folder):
        super().__init__()
        self.encoder = transformers.AutoModel.from_pretrained(folder)
        config = self.encoder.config
        self.start, self.end = XLNetPoolerStartLogits(config), XLNetPoolerEndLogits(config)
        self.answer = XLNetPoolerAnswerClass(config)
        self.answer.activation = torch.nn.Sequential(torch.nn.Tanh(), torch.nn.Dropout(0.1))
        size, stddev = config.hidden_size, config.initializer_range
        self.start.dense, self.end.dense_1 = Logit(size, 1), Logit(size, 1)
        self.answer.dense_1 = Logit(size, 1, bias=False)
        for layer in (layer for head in (self.start, self.end, self.answer) for layer in head.modules()):
            if isinstance(layer, torch.nn.Linear):
                torch.nn.init.trunc_normal_(layer.weight, std=stddev, a=-2 * stddev, b=2 * stddev)
                if layer.bias is not None:
                    torch.nn.init.zeros_(layer.bias)

    def forward(self, p_mask, start_positions=None, end_positions=None, **inputs):
        """The loss if there are positions (0 means no answer), and the beam otherwise: [batch, BEAM] starts."""
        tokens = self.encoder(**inputs).last_hidden_state
        start_logits = self.start(tokens, p_mask=p_mask)
        if start_positions is None:
            return self._beam(tokens, p_mask, start_logits)
        expected_start = torch.einsum("bsh,bs->bh", tokens.float(), start_logits.softmax(-1))
        no_answer = self.answer(tokens, start_states=expected_start, cls_index=torch.zeros_like(start_positions))
        end_logits = self.end(tokens, start_positions=start_positions, p_mask=p_mask)
        spans = (functional.cross_entropy(start_logits, start_positions)
                 + functional.cross_entropy(end_logits, end_positions)) / 2
        is_impossible = (start_positions == 0).float()
        return Outputs(spans + functional.binary_cross_entropy_with_logits(no_answer, is_impossible) / 2)

    def _beam(self, tokens, p_mask, start_logits):
        start_scores, starts = start_logits.log_softmax(-1).topk(BEAM)
        start_tokens = tokens.gather(1, starts[..., None].expand(-1, -1, tokens.shape[-1]))  # [batch, BEAM, H]
        pairs = tokens[:, :, None].expand(-1, -1, BEAM, -1)  # [batch, seq, BEAM, H]
        end_logits = self.end(pairs, start_states=start_tokens[:, None].expand_as(pairs), p_mask=p_mask[..., None])
        end_scores, ends = end_logits.log_softmax(1).topk(BEAM, dim=1)  # [batch, BEAM ends, BEAM starts]
        return Beam(starts, start_scores, ends, end_scores)


class Logit(torch.nn.Linear):
    """A layer in float32, whatever the precision of the others."""

    def forward(self, inputs):
        with torch.autocast("cpu", enabled=False):
            return super().forward(inputs.float())


def question_ids(path):
    with open(path, encoding="utf-8") as file:
        return [question["id"] for article in json.load(file)["data"] for paragraph in article["paragraphs"]
                for question in paragraph["qas"]]
