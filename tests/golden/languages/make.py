"""Makes cases.json: the ids that transformers gives for texts, in folders with the files of repositories on the Hub.

    python make.py     # wants transformers 5, sentencepiece and protobuf

The files have the keys and values of the repositories (docs/languages.md). Their vocabularies are made here of the
texts: every second word, and all characters.
"""

import json
import pathlib
import sys
import tempfile
import unicodedata

import transformers

HERE = pathlib.Path(__file__).parent
sys.path.append(str(HERE.parent.parent / "helpers"))
from language_folders import write_tokenizer  # noqa: E402

MASK = dict(__type="AddedToken", content="[MASK]", lstrip=True, normalized=True, rstrip=False, single_word=False)
NAMES = dict(bos_token="[CLS]", eos_token="[SEP]", unk_token="<unk>", sep_token="[SEP]", pad_token="<pad>",
             cls_token="[CLS]")
MAP = {**NAMES, "mask_token": "[MASK]"}
BERT = dict(do_basic_tokenize=True, never_split=None, unk_token="[UNK]", sep_token="[SEP]", pad_token="[PAD]",
            cls_token="[CLS]", mask_token="[MASK]", tokenize_chinese_chars=True, strip_accents=None)
HINDI = ["यहाँ ठंडी हवा में लड़का हिन्दी पढ़ता है।", "क्या तुम्हारे घर में पानी है"]
CHINESE = ["臺北的天氣很好, OK?", "他說：「明天見！」"]
# Repository: kind, casing of its vocabulary, files, arguments of its card, texts, class of a card
MODELS = {
    "ai4bharat/indic-bert": ("Unigram", False, {}, {}, HINDI),
    "ckiplab/albert-base-chinese-ner": ("WordPiece", False, {"tokenizer_config.json": dict(
        BERT, do_lower_case=False, model_max_length=512, name_or_path="bert-base-chinese")}, {}, CHINESE),
    "voidful/albert_chinese_base": ("WordPiece", True, {"tokenizer_config.json": dict(
        BERT, do_lower_case=True, special_tokens_map_file=None, tokenizer_file=None, tokenizer_class="BertTokenizer",
        name_or_path="voidful/albert_chinese_base")}, {}, CHINESE),
    "asafaya/albert-base-arabic": ("Unigram", True, {"tokenizer_config.json": dict(
        special_tokens_map_file=None, full_tokenizer_file=None), "special_tokens_map.json": MAP}, {},
        ["ذَهَبَ الوَلَدُ إلى المدرسة", "هذا كتاب جديد"]),
    "m3hrdadfi/albert-fa-base-v2": ("Unigram", True, {}, {}, ["او گفت: می‌روم و آب سرد می‌آورم", "این کتاب را بخوان"]),
    "dccuchile/albert-base-spanish": ("Unigram", True, {"tokenizer_config.json": dict(
        NAMES, do_lower_case=True, keep_accents=True, mask_token=MASK, model_max_length=512, remove_space=True,
        special_tokens_map_file=None, tokenizer_class="AlbertTokenizer")}, {},
        ["El niño comió piñas en Málaga, ¿no?", "¿Qué día es mañana?"]),
    "cservan/fralbert-base-cased": ("Unigram", False, {"tokenizer_config.json": dict(
        keep_accents=True, do_lower_case=False, model_max_length=512, tokenizer_class="AlbertTokenizer")}, {},
        ["L'été, Noël va à Orléans: ça va très bien", "Où est la forêt?"]),
    "ALINEAR/albert-japanese-v2": ("Unigram", True, {"tokenizer_config.json": dict(keep_accents=True),
                                                     "special_tokens_map.json": MAP}, {},
                                   ["東京でガラスのコップをもらった。", "パンとバターがあります"]),
    "kykim/albert-kor-base": ("WordPiece", True, {"tokenizer_config.json": dict(
        do_lower_case=True, strip_accents=False, model_max_length=256)}, {},
        ["서울에서 Café를 마셨다.", "오늘 날씨가 좋다"]),
    "KB/albert-base-swedish-cased-alpha": ("Unigram", False, {"tokenizer_config.json": dict(
        init_inputs=[], do_lower_case=False, keep_accents=True), "added_tokens.json": {},
        "special_tokens_map.json": MAP}, {}, ["Åke såg en älg på öns strand", "Björn åt räkor i går"]),
    "loodos/albert-base-turkish-uncased": ("Unigram", True, {"tokenizer_config.json": dict(
        do_lower_case=True, keep_accents=True, model_max_length=512), "special_tokens_map.json": MAP},
        dict(do_lower_case=False, keep_accents=True),
        ["ığdır'da ılık bir gün, izmir'de şimşek çaktı", "öğün çok güzel"]),
    "Rostlab/prot_albert": ("BPE", False, {}, dict(do_lower_case=False), ["M K T A Y I A K Q R X D E", "S L P V N G"]),
}


def pieces_of(texts, lower, wordpiece):
    texts = [unicodedata.normalize("NFKC", text.lower() if lower else text) for text in texts]
    words = [word for text in texts for word in text.split()][::2]
    characters = sorted({character for text in texts for character in text if not character.isspace()})
    if wordpiece:
        return [*dict.fromkeys([*characters, *(f"##{each}" for each in characters), *filter(str.isalpha, words)])]
    return [*dict.fromkeys([*(f"\u2581{word}" for word in words), *characters])]


def ids_of(tokenizer, texts):
    return [tokenizer(text, add_special_tokens=False)["input_ids"] for text in texts]


def main():
    cases = {}
    for name, (kind, lower, files, arguments, texts) in MODELS.items():
        case = dict(kind=kind, files=files, arguments=arguments, texts=texts,
                    pieces=pieces_of(texts, lower, kind == "WordPiece"))
        if kind == "BPE":
            case["pieces"] = [f"\u2581{letter}" for letter in "LAGVESIKRDTPNQFYMHCWXUBZO"]
        with tempfile.TemporaryDirectory() as folder:
            write_tokenizer(case, pathlib.Path(folder) / "a")
            pathlib.Path(folder, "a/config.json").write_text('{"model_type": "albert"}')
            tokenizers = transformers.BertTokenizer if kind == "WordPiece" else transformers.AutoTokenizer
            case["ids"] = ids_of(tokenizers.from_pretrained(f"{folder}/a", **arguments), texts)
            if name == "ai4bharat/indic-bert":
                case["ids_with_keep_accents"] = ids_of(
                    tokenizers.from_pretrained(f"{folder}/a", keep_accents=True), texts)
        cases[name] = case
    text = json.dumps(cases, ensure_ascii=False, indent=1) + "\n"
    (HERE / "cases.json").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
