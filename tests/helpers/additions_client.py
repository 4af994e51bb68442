"""Uses the metric, the head and the weight format that CONTRIBUTING.md adds; sys.argv[1] is an empty folder."""

import sys

import numpy as np
from documentation import is_installed
from safetensors.numpy import save_file

import albert_tf
from albert_tf.modeling.mean_classifier import AlbertMeanClassifier
from albert_tf.tasks.classification.metrics import evaluate
from albert_tf.tasks.classification.table_format import read_table_format
from albert_tf.utils.outputs import write_text

folder = sys.argv[1]

write_text(f"{folder}/task.json", """{"name": "t", "files": {"dev": "dev.csv"}, "labels": ["bad", "good"],
    "columns": {"text_a": "text", "label": "label"}, "metrics": ["precision"]}""")
probabilities = np.array([[0.1, 0.9], [0.2, 0.8], [0.7, 0.3]], np.float32)
# One of the two texts that are predicted as good is good.
assert evaluate(read_table_format(f"{folder}/task.json"), probabilities, np.array([1, 0, 0]))["precision"] == 0.5

config = albert_tf.AlbertConfig(vocab_size=20, embedding_size=4, hidden_size=8, num_attention_heads=2,
                                num_hidden_layers=1, intermediate_size=8, max_position_embeddings=16)
model = AlbertMeanClassifier(config, num_labels=3)
rows = dict(input_ids=[2, 7, 9, 3, 0], input_mask=[1, 1, 1, 1, 0], segment_ids=[0] * 5)
inputs = {name: np.array([row], np.int32) for name, row in rows.items()}
logits = model(inputs)["logits"].numpy()
assert logits.shape == (1, 3)
without_padding = {name: row[:, :4] for name, row in inputs.items()}
np.testing.assert_allclose(model(without_padding)["logits"], logits, atol=1e-6)
albert_tf.save_pretrained(model, f"{folder}/saved")

write_text(f"{folder}/plain/albert_config.json", config.to_json_string())
save_file({variable.name.split(":")[0]: variable.numpy() for variable in model.weights},
          f"{folder}/plain/plain.safetensors")
for path in ("saved", "plain"):
    read = albert_tf.from_pretrained(f"{folder}/{path}", "mean_classifier")
    np.testing.assert_array_equal(read(inputs)["logits"], logits)

if is_installed("onnx") and is_installed("onnxruntime"):
    from albert_tf.export.onnx.session import OnnxModel
    from albert_tf.export.onnx.writing import to_onnx

    np.testing.assert_allclose(OnnxModel(to_onnx(model))(inputs)["logits"], logits, atol=1e-5)
print(albert_tf.__file__)
