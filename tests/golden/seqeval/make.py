"""Makes numbers.json: random and damaged sequences of tags, and what seqeval 1.2.2 says of them.

    python make.py     # wants seqeval
"""

import json
import pathlib
import random
import warnings

from seqeval import metrics

warnings.simplefilter("ignore")  # of types that are never predicted
TYPES = ("place", "person", "creative-work")


def sentences(tags):
    return [[random.choice(["O", *tags]) for _ in range(random.randint(1, 9))] for _ in range(random.randint(1, 6))]


def damaged(sentence, tags):
    return [random.choice(tags) if random.random() < 0.3 else tag for tag in sentence]


def numbers(expected, predicted):
    report = {}
    if any(tag != "O" for sentence in expected for tag in sentence):
        report = metrics.classification_report(expected, predicted, output_dict=True, zero_division=0)
    scores = {name: float(getattr(metrics, f"{name}_score")(expected, predicted, zero_division=0))
              for name in ("precision", "recall", "f1")}
    types = {name: float(values["f1-score"]) for name, values in report.items() if not name.endswith(" avg")}
    return dict(expected=expected, predicted=predicted, accuracy=metrics.accuracy_score(expected, predicted), **scores,
                types=types)


random.seed(1)
rows = []
for prefixes in ("BI", "BIES"):
    tags = ["O"] + [f"{prefix}-{name}" for prefix in prefixes for name in TYPES]
    for _ in range(20):
        expected = sentences(tags)
        rows.append(numbers(expected, [damaged(sentence, tags) for sentence in expected]))
for expected, predicted in (("O", "O"), ("B-place", "O"), ("O", "B-place")):
    rows.append(numbers([[expected]], [[predicted]]))
path = pathlib.Path(__file__).parent / "numbers.json"
path.write_text("[\n" + ",\n".join(map(json.dumps, rows)) + "\n]\n")
