"""The tokenizer where TensorFlow is not installed: beside ONNX Runtime, for example."""

import json
import subprocess
import sys

import pytest

from albert_tf.text.tokenization import FullTokenizer

TEXTS = ["The boat, 1990.", "Über  the hill"]
PROGRAM = """
import json, sys

class NotInstalled:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("tensorflow", "tensorflow_text", "tf_keras", "keras"):
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, NotInstalled())
from albert_tf.text.tokenization import FullTokenizer
flag, path, *texts = sys.argv[1:]
print(json.dumps({name: array.tolist() for name, array in FullTokenizer(**{flag: path})(texts).items()}))
"""


@pytest.mark.parametrize("flag, path", [("spm_model_file", "tiny_spm/tiny.model"),
                                        ("vocab_file", "wordpiece/vocab.txt")])
def test_a_batch_is_the_same_without_tensorflow(golden, flag, path):
    path = str(golden / path)
    command = [sys.executable, "-c", PROGRAM, flag, path, *TEXTS]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert json.loads(printed) == {name: array.tolist() for name, array in FullTokenizer(**{flag: path})(TEXTS).items()}
