"""Tokenizer files as in repositories of the Hugging Face Hub, with a small vocabulary. Wants sentencepiece alone."""

import json
import pathlib
import shutil
import struct

import sentencepiece

GOLDEN = pathlib.Path(__file__).parent.parent / "golden"


def write_tokenizer(case, folder):
    """Writes the vocabulary of a case of golden/languages/cases.json and the files beside it. Returns its size."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for name, content in case["files"].items():
        (folder / name).write_text(json.dumps(content), encoding="utf-8")
    if case["kind"] == "WordPiece":
        pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *case["pieces"]]
        (folder / "vocab.txt").write_text("".join(f"{piece}\n" for piece in pieces), encoding="utf-8")
        return len(pieces)
    content = sentencepiece_model(case["pieces"], case["kind"] == "BPE")
    (folder / "spiece.model").write_bytes(content)
    return sentencepiece.SentencePieceProcessor(model_proto=content).vocab_size()


def sentencepiece_model(pieces, bpe=False):
    """golden/accents/spiece.model, which has NFKC, with more pieces: bytes at the end add to a message of protobuf."""
    base = (GOLDEN / "accents/spiece.model").read_bytes()
    model = sentencepiece.SentencePieceProcessor(model_proto=base)
    known = {model.id_to_piece(i) for i in range(model.vocab_size())}
    for number, piece in enumerate(piece for piece in pieces if piece not in known):
        score = -100.0 - number if bpe else -3.0 if len(piece) > 2 else -8.0
        content = piece.encode()
        message = b"\x0a" + bytes([len(content)]) + content + b"\x15" + struct.pack("<f", score)
        base += b"\x0a" + bytes([len(message)]) + message
    return base + b"\x12\x02\x18\x02" * bpe  # trainer_spec's model_type
