"""Makes numbers.json: what transformers' AlbertForMaskedLM puts behind masks with the weights of albert_tiny_en.

    python tests/golden/albert_tiny_en/make.py

It needs torch, transformers and sentencepiece, and none of albert_tf.
"""

import json
import pathlib

import sentencepiece
import torch
import transformers

HERE = pathlib.Path(__file__).parent
MODEL = HERE.parents[2] / "albert_tf" / "models" / "albert_tiny_en"
TEXTS = (
    "she opened the [MASK] and went out.",
    "the old man shook his [MASK] and smiled.",
    "i have not seen him for three [MASK] at least.",
    "they sat down to [MASK] at seven o'clock.",
)
CLS, SEP, MASK = 2, 3, 4


def main():
    pieces = sentencepiece.SentencePieceProcessor(model_file=str(MODEL / "spiece.model"))
    model = transformers.AlbertForMaskedLM.from_pretrained(MODEL, torch_dtype=torch.float32).eval()
    numbers = []
    for text in TEXTS:
        before, after = text.split("[MASK]")
        ids = [CLS, *pieces.encode(before), MASK, *pieces.encode(after), SEP]  # a word begins behind each mask
        with torch.no_grad():
            logits = model(input_ids=torch.tensor([ids])).logits[0, ids.index(MASK)]
        best = logits.softmax(-1).topk(5)
        numbers.append(dict(text=text, ids=ids, pieces=[pieces.id_to_piece(i) for i in best.indices.tolist()],
                            probabilities=best.values.tolist()))
    (HERE / "numbers.json").write_text(json.dumps(numbers, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
