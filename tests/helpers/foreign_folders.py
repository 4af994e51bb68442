"""Tokenizers of Hugging Face folders with other steps than ALBERT's and BERT's, trained on ordinary sentences."""

import functools
import json

from ordinary_text import sentences

SIZE = 1000  # of every model's vocabulary
# By name: the class, the special tokens, and the post-processor's rows of one text and of two.
KINDS = {
    "byte-level BPE": ("RobertaTokenizer", ("<s>", "</s>"), None),
    "XLM-R pieces": ("XLMRobertaTokenizer", ("<s>", "</s>"), ("<s> $A </s>", "<s> $A </s> </s> $B </s>")),
    "T5-like": ("TokenizersBackend", ("</s>",), ("$A </s>", "$A </s> $B </s>")),
    "WordPiece of words": ("PreTrainedTokenizerFast", ("[CLS]", "[SEP]"), (
        "[CLS] $A [SEP]", "[CLS] $A [SEP] $B:1 [SEP]:1")),
    "BPE with bytes": ("PreTrainedTokenizerFast", ("[CLS]", "[SEP]"), (
        "[CLS] $A [SEP]", "[CLS] $A [SEP] $B:1 [SEP]:1")),
    "ALBERT's with NFC": ("PreTrainedTokenizerFast", ("[CLS]", "[SEP]"), (
        "[CLS] $A [SEP]", "[CLS] $A [SEP] $B:1 [SEP]:1")),
}


@functools.lru_cache(maxsize=None)
def tokenizer_files(kind):
    """The content of tokenizer.json and tokenizer_config.json."""
    from tokenizers import AddedToken, Tokenizer, models, normalizers, pre_tokenizers, processors, trainers

    tokenizer_class, special, template = KINDS[kind]
    tokens = (["[CLS]", "[PAD]", "[SEP]", "[UNK]", "[MASK]"] if special[0] == "[CLS]"
              else ["<s>", "<pad>", "</s>", "<unk>", "<mask>"])  # in this order, since XLM-R's class knows the ids
    _, padding, _, unknown, mask = tokens
    options = dict(vocab_size=SIZE - 20, special_tokens=tokens, show_progress=False)
    metaspace = pre_tokenizers.Metaspace(prepend_scheme="always")
    if kind == "byte-level BPE":
        tokenizer = Tokenizer(models.BPE())
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        trainer = trainers.BpeTrainer(initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), **options)
    elif kind == "WordPiece of words":
        tokenizer = Tokenizer(models.WordPiece(unk_token=unknown))
        tokenizer.normalizer = normalizers.BertNormalizer(handle_chinese_chars=False, strip_accents=True)
        tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
        trainer = trainers.WordPieceTrainer(**options)
    elif kind == "BPE with bytes":
        tokenizer = Tokenizer(models.BPE(unk_token=unknown, byte_fallback=True, fuse_unk=True))
        tokenizer.normalizer, tokenizer.pre_tokenizer = normalizers.Lowercase(), metaspace
        options["special_tokens"] = [*tokens, *(f"<0x{byte:02X}>" for byte in range(256))]
        trainer = trainers.BpeTrainer(**options)
    else:
        tokenizer = Tokenizer(models.Unigram())
        tokenizer.normalizer = normalizers.NFC() if kind == "ALBERT's with NFC" else None
        splits = [pre_tokenizers.WhitespaceSplit(), metaspace] if kind == "XLM-R pieces" else [metaspace]
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence(splits)
        trainer = trainers.UnigramTrainer(unk_token=unknown, **options)
    tokenizer.train_from_iterator(sentences(1000), trainer)
    ids = [(token, tokenizer.token_to_id(token)) for token in special]
    tokenizer.post_processor = processors.TemplateProcessing(*template, ids) if template else (
        processors.RobertaProcessing(*ids[::-1], add_prefix_space=False))
    tokenizer.add_tokens([AddedToken("Python's", single_word=True), AddedToken("albert_tf", lstrip=True)])
    content = json.loads(tokenizer.to_str())
    if kind == "BPE with bytes":  # the trainer makes special tokens of them, which no text would have
        content["added_tokens"] = [token for token in content["added_tokens"] if not token["content"].startswith("<0x")]
    config = dict(tokenizer_class=tokenizer_class, cls_token=special[0], sep_token=special[-1], pad_token=padding,
                  unk_token=unknown, mask_token=mask)
    if kind == "T5-like":
        config.update(eos_token="</s>", extra_special_tokens=["<extra_id_0>", "<extra_id_1>"])
    return json.dumps(content), json.dumps(config)


def write_tokenizer(kind, folder):
    """Writes tokenizer.json and tokenizer_config.json."""
    for name, content in zip(("tokenizer.json", "tokenizer_config.json"), tokenizer_files(kind)):
        (folder / name).write_text(content, encoding="utf-8")
