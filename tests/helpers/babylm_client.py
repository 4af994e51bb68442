"""BLiMP as the BabyLM challenge scores it: python babylm_client.py FOLDER PAIRS_FOLDER RESULTS.json

Written from a description of the challenge's evaluation (sentence_zero_shot, backend mlm, temperature 1): each token of
a sentence that covers text is masked alone, and the log-probabilities of the masked tokens are added. The first
sentence wins a tie. The average is the mean over the paradigms. Needs torch and transformers, and nothing of ours.
"""

import collections
import json
import pathlib
import sys

import torch
import transformers

folder, pairs_folder, results_path = sys.argv[1:]
torch.set_num_threads(1)  # a sentence is too little for several
tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
model = transformers.AutoModelForMaskedLM.from_pretrained(folder).float().eval()  # float16 weights, as they are stored


def score(sentence: str) -> float:
    encoded = tokenizer(sentence, return_offsets_mapping=True)
    positions = [position for position, (_, end) in enumerate(encoded["offset_mapping"]) if end > 0]
    ids = torch.tensor(encoded["input_ids"])
    masked = ids.repeat(len(positions), 1)
    masked[range(len(positions)), positions] = tokenizer.mask_token_id
    logits = model(input_ids=masked, attention_mask=torch.ones_like(masked)).logits[range(len(positions)), positions]
    return float(logits.log_softmax(-1)[range(len(positions)), ids[positions]].sum())


scores, hits = [], dict(paradigm=collections.defaultdict(list), field=collections.defaultdict(list))
with torch.no_grad():
    for path in sorted(pathlib.Path(pairs_folder).glob("*.jsonl")):
        for pair in map(json.loads, path.read_text(encoding="utf-8").splitlines()):
            good, bad = score(pair["sentence_good"]), score(pair["sentence_bad"])
            scores += [good, bad]
            hits["paradigm"][path.stem].append(good >= bad)
            hits["field"][pair["field"].replace("_", "/")].append(good >= bad)
accuracies = {kind: {name: sum(values) / len(values) for name, values in of_kind.items()}
              for kind, of_kind in hits.items()}
average = sum(accuracies["paradigm"].values()) / len(accuracies["paradigm"])
with open(results_path, "w", encoding="utf-8") as file:
    json.dump(dict(scores=scores, average=average, **accuracies), file)
