"""How this folder was made: a random AlbertForMaskedLM, and pseudo-log-likelihoods by one plain call for each piece.

Needs torch, transformers and sentencepiece, and nothing of ours.
"""

import json
import pathlib

import sentencepiece
import torch
import transformers

FOLDER = pathlib.Path(__file__).parent
SENTENCES = ["the name of the file", "return the unquestionable arrangement", "of", "", "a value, if it is not none."]

tokenizer = sentencepiece.SentencePieceProcessor(model_file=str(FOLDER.parents[1] / "tiny_spm/tiny.model"))
cls, sep, mask = map(tokenizer.piece_to_id, ("[CLS]", "[SEP]", "[MASK]"))
torch.manual_seed(1)
model = transformers.AlbertForMaskedLM(transformers.AlbertConfig(
    vocab_size=tokenizer.vocab_size(), embedding_size=8, hidden_size=16, num_hidden_layers=2, num_attention_heads=2,
    intermediate_size=32, max_position_embeddings=32, hidden_dropout_prob=0, attention_probs_dropout_prob=0,
    hidden_act="gelu_new", initializer_range=0.5)).eval()
model.save_pretrained(FOLDER)


def score(sentence, within_word_l2r):
    pieces = tokenizer.encode(sentence, out_type=str)
    ids = [cls, *tokenizer.encode(sentence), sep]
    total = 0.0
    for i in range(len(pieces)):
        end = i + 1
        while within_word_l2r and end < len(pieces) and pieces[end].isalpha() and pieces[end].isascii():
            end += 1  # these sentences have no digits; other marks and U+2581 begin a word
        masked = ids[: i + 1] + [mask] * (end - i) + ids[end + 1 :]
        with torch.no_grad():
            logits = model(torch.tensor([masked])).logits
        total += logits[0, i + 1].double().log_softmax(-1)[ids[i + 1]].item()
    return total


scores = {name: [score(sentence, name == "within_word_l2r") for sentence in SENTENCES]
          for name in ("plain", "within_word_l2r")}
(FOLDER / "scores.json").write_text(json.dumps(dict(sentences=SENTENCES, **scores), indent=1) + "\n")
