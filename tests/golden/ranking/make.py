"""Makes numbers.json: labels and scores of the passages of queries, and trec_eval's measures of them.

    python make.py     # wants pytrec_eval-terrier
"""

import json
import pathlib

import numpy as np
import pytrec_eval

random = np.random.default_rng(7)
rows = [[query, int(random.random() < 0.2), round(float(random.random()), 6)]
        for query, count in zip("abcdef", (3, 8, 15, 25, 40, 12)) for _ in range(count)]
rows = [row for row in rows if row[0] != "f"] + [["f", int(place == 11), 1 - place / 100] for place in range(12)]
relevant, run = {}, {}
for number, (query, label, score) in enumerate(rows):
    relevant.setdefault(query, {})[str(number)] = label
    run.setdefault(query, {})[str(number)] = score
with_relevant = {query: labels for query, labels in relevant.items() if any(labels.values())}
first_ten = {query: dict(sorted(scores.items(), key=lambda each: -each[1])[:10]) for query, scores in run.items()}
measures = {"ndcg@10": ("ndcg_cut_10", "ndcg_cut.10", run), "mrr@10": ("recip_rank", "recip_rank", first_ten)}
numbers = dict(rows=rows)
for name, (key, measure, scores) in measures.items():
    evaluated = pytrec_eval.RelevanceEvaluator(with_relevant, {measure}).evaluate(scores)
    numbers[name] = float(np.mean([evaluated[query][key] for query in with_relevant]))
(pathlib.Path(__file__).parent / "numbers.json").write_text(json.dumps(numbers) + "\n")
