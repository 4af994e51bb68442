"""Makes the other files of this folder: the vocabulary of tiny_spm as transformers 5 saves it.

    python tests/golden/hf/tokenizer/make.py

It needs transformers 5, sentencepiece and protobuf.
"""

import json
import pathlib
import shutil
import tempfile

from transformers import AutoTokenizer

HERE = pathlib.Path(__file__).parent


def main():
    with tempfile.TemporaryDirectory() as folder:
        source, saved = pathlib.Path(folder, "source"), pathlib.Path(folder, "saved")
        source.mkdir()
        shutil.copy(HERE.parents[1] / "tiny_spm/tiny.model", source / "spiece.model")
        (source / "config.json").write_text('{"model_type": "albert"}')
        (source / "tokenizer_config.json").write_text('{"tokenizer_class": "AlbertTokenizer", "do_lower_case": true}')
        AutoTokenizer.from_pretrained(source).save_pretrained(saved)
        content = json.loads((saved / "tokenizer.json").read_text("utf-8"))
        (HERE / "tokenizer.json").write_text(json.dumps(content, separators=(",", ":")) + "\n")
        shutil.copy(saved / "tokenizer_config.json", HERE)


if __name__ == "__main__":
    main()
