"""Makes the other files here but spiece.model: what tokenizers of transformers that keep accents make of texts.

    python make.py     # wants transformers 5, sentencepiece and protobuf

spiece.model was trained by train_vocabulary.py --keep_accents --vocab_size=140 on ten copies of the first nine texts.
"""

import json
import pathlib
import shutil
import tempfile

import transformers

HERE = pathlib.Path(__file__).parent
TEXTS = [
    "Der schöne Bär fährt über die Brücke nach Köln.",
    "Müde Füße gehen nicht gern über große Straßen.",
    "Un élève français préfère le café crème à la forêt.",
    "Où est la gare, s'il vous plaît, après le théâtre ?",
    "घर में पानी है और यहाँ बच्चे खेल रहे हैं।",
    "वह किताब मेरी है, यह मेज़ उसकी है।",
    "Мой брат ещё живёт в Йошкар Оле, Иван.",
    "がっこうへ いく まえに パンを たべます。",
    "Ο δρόμος είναι μακρύς και όμορφος.",
    "cafe\u0301 cre\u0300me, \uff23af\u00e9, \ufb01\u00a0de, \uff8a\uff9d",  # other ways to write the same characters
    "यहाँ यह",
    "schön schon",
]
WORDPIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", ",", ".", "schon", "schön", "caf", "##é", "##e", "é",
              "über", "uber", "fi", "यह", "##ा", "##ँ", "##ाँ", "मेज़", "##ñ", "ο", "##ς", "о", "ё"]


def main():
    cases = []
    for lower in (True, False):
        with tempfile.TemporaryDirectory() as folder:
            shutil.copy(HERE / "spiece.model", folder)
            pathlib.Path(folder, "config.json").write_text('{"model_type": "albert"}')
            tokenizer = transformers.AutoTokenizer.from_pretrained(folder, keep_accents=True, do_lower_case=lower)
        cases += [dict(text=text, lower=lower, vocabulary="spiece.model", pieces=tokenizer.tokenize(text))
                  for text in TEXTS]
        if lower:
            tokenizer.save_pretrained(HERE / "hugging_face")
            path = HERE / "hugging_face/tokenizer.json"
            path.write_text(json.dumps(json.loads(path.read_text("utf-8")), separators=(",", ":")) + "\n")
    vocab = {piece: number for number, piece in enumerate(WORDPIECES)}
    (HERE / "vocab.txt").write_text("".join(f"{piece}\n" for piece in vocab), encoding="utf-8")
    tokenizer = transformers.BertTokenizer(vocab, do_lower_case=True, strip_accents=False)
    cases += [dict(text=text, lower=True, vocabulary="vocab.txt", pieces=tokenizer.tokenize(text)) for text in TEXTS]
    text = json.dumps(cases, ensure_ascii=False, indent=1) + "\n"
    (HERE / "cases.json").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
