"""OnnxGraph: nodes and weights of an ONNX model; and AlbertModel in it, as albert_tf/modeling computes it.

A tensor of the graph is given by its name. Each weight is stored once: `matrix` and `table` store it, and return an
object that any number of layers may use.
"""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import TYPE_CHECKING, Any, Callable, Iterable, Sequence, TypeAlias

import numpy as np
import tensorflow as tf

from albert_tf.export import PRECISIONS
from albert_tf.modeling.albert_model import AlbertModel, Embeddings
from albert_tf.modeling.encoder import (
    MASKED_SCORE,
    AttentionBlock,
    AttentionWeights,
    FeedForwardBlock,
    FeedForwardWeights,
)
from albert_tf.modeling.layers import LayerNorm
from albert_tf.modeling.vectors import POOLER
from albert_tf.utils.bounds import check_one_of
from albert_tf.utils.imports import check_installed

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, DTypeLike

Array: TypeAlias = "np.ndarray | tf.Tensor | tf.Variable"
OPSET, IR_VERSION = 20, 9  # ONNX 1.15 and ONNX Runtime 1.17: the first with Gelu
_LARGEST_INTEGER = 127
_LEAST_SCALE = 1e-30  # of a row of equal values


class OnnxGraph:
    """Collects nodes and weights of a model. int8 leaves biases, LayerNorms and the last layer of a head in float32."""

    def __init__(self, precision: str):
        check_one_of("precision", precision, PRECISIONS)
        self.precision = precision
        self._onnx = import_package("onnx")
        self._nodes: list[Any] = []
        self._stored: list[Any] = []
        self._constants: dict[tuple, str] = {}

    def node(self, op: str, *inputs: str, **attributes: Any) -> str:
        """Adds a node with one output, and returns the output's name."""
        return self.nodes(op, *inputs, count=1, **attributes)[0]

    def nodes(self, op: str, *inputs: str, count: int, **attributes: Any) -> list[str]:
        """Adds a node with `count` outputs, and returns their names."""
        outputs = [f"{op}_{len(self._nodes)}" + (f"_{i}" if i else "") for i in range(count)]
        self._nodes.append(self._onnx.helper.make_node(op, inputs, outputs, **attributes))
        return outputs

    def constant(self, value: ArrayLike, dtype: DTypeLike = np.int64) -> str:
        """Stores a small constant, such as a shape or a list of axes. Equal constants are stored once."""
        array = np.asarray(value, dtype)
        key = (array.dtype.str, array.shape, array.tobytes())
        if key not in self._constants:
            self._constants[key] = self._store(f"constant_{len(self._constants)}", array)
        return self._constants[key]

    def scalar(self, value: float) -> str:
        """Stores a float32 number."""
        return self.constant(value, np.float32)

    def cast(self, x: str, dtype: DTypeLike) -> str:
        """Casts x to a NumPy data type."""
        return self.node("Cast", x, to=self._element(dtype))

    def weight(self, name: str, value: Array) -> str:
        """Stores a weight that is not used in matrix products, such as a bias, as float16 or float32."""
        array = _float32(value)
        if self.precision != "float16":
            return self._store(name, array)
        if np.abs(array).max(initial=0) > np.finfo(np.float16).max:
            raise ValueError(f"{name} has values that are too large for float16: choose float32 or int8")
        return self.cast(self._store(name, array.astype(np.float16)), np.float32)

    def matrix(self, name: str, kernel: Array) -> Callable[[str], str]:
        """Stores a kernel [inputs, outputs] and returns x -> x kernel."""
        if self.precision != "int8":
            stored = self.weight(name, kernel)
            return lambda x: self.node("MatMul", x, stored)
        integers, scales = _quantize(_float32(kernel), is_multiplied=True)
        stored, scales_and_sums = self._store(name, integers), self._store_scales(name, integers, scales)
        return lambda x: self.integer_product(x, stored, *scales_and_sums)

    def dense(self, name: str, kernel: Array, bias: Array | None = None) -> Callable[[str], str]:
        """Stores kernel and bias and returns x -> x kernel + bias."""
        return self._add_bias(self.matrix(f"{name}/kernel", kernel), name, bias)

    def output_dense(self, name: str, kernel: Array, bias: Array | None = None) -> Callable[[str], str]:
        """Like `dense`, for the last layer of a head. It is never int8, since that error would be in the logits."""
        stored = self.weight(f"{name}/kernel", kernel)
        return self._add_bias(lambda x: self.node("MatMul", x, stored), name, bias)

    def table(self, name: str, rows: Array, is_multiplied: bool = False) -> Table:
        """Stores an embedding table [rows, size]. `is_multiplied`: whether it is used in products too."""
        if self.precision != "int8":
            return Table(self, self.weight(name, rows))
        integers, scales = _quantize(_float32(rows).T, is_multiplied)
        return Table(self, self._store(name, integers.T), self._store_scales(name, integers, scales))

    def integer_product(self, x: str, integers: str, scales: str, sums: str) -> str:
        """x [..., inputs] times an int8 matrix [inputs, outputs] with one scale per output: float32 [..., outputs].

        Each row of x is rounded to 8 bits between its smallest and its largest value. So a token with large values does
        not make those of other tokens coarser, and an answer does not depend on the other texts of its batch. `sums`
        has the sums of the columns of the matrix, scales included.
        """
        largest, least = (self.node(op, x, self.constant([-1])) for op in ("ReduceMax", "ReduceMin"))  # [..., 1]
        middle = self.node("Mul", self.node("Add", largest, least), self.scalar(0.5))
        scale = self.node("Div", self.node("Sub", largest, middle), self.scalar(_LARGEST_INTEGER))
        scale = self.node("Max", scale, self.scalar(_LEAST_SCALE))
        shifted = self.node("Mul", self.node("Sub", x, middle), self.node("Reciprocal", scale))
        # MatMulInteger takes one zero point for all rows. Unsigned integers are faster on some processors.
        zero_point = self.constant(_LARGEST_INTEGER + 1, np.uint8)
        quantized = self.node("QuantizeLinear", shifted, self.scalar(1), zero_point)
        product = self.cast(self.node("MatMulInteger", quantized, integers, zero_point), np.float32)
        product = self.node("Mul", self.node("Mul", product, scale), scales)
        return self.node("Add", product, self.node("Mul", middle, sums))

    def layer_norm(self, name: str, layer: LayerNorm | AttentionWeights | FeedForwardWeights,
                   epsilon: float) -> Callable[[str], str]:
        """Stores a layer's gamma and beta and returns x -> LayerNorm(x) over the last axis."""
        gamma, beta = self.weight(f"{name}/gamma", layer.gamma), self.weight(f"{name}/beta", layer.beta)
        return lambda x: self.node("LayerNormalization", x, gamma, beta, epsilon=epsilon)

    def activation(self, name: str, x: str) -> str:
        """Applies the activation with the name of a config's hidden_act."""
        if name == "linear":
            return x
        if name in ("gelu", "gelu_exact"):
            return self.node("Gelu", x, approximate="tanh" if name == "gelu" else "none")
        return self.node({"relu": "Relu", "tanh": "Tanh"}[name], x)

    def reshape(self, x: str, shape: Sequence[int]) -> str:
        """Reshapes x. 0 keeps a dimension, and -1 is inferred."""
        return self.node("Reshape", x, self.constant(shape))

    def gather_tokens(self, x: str, positions: str) -> str:
        """The tokens of x [batch, seq, size] at positions [batch, n]: [batch, n, size]."""
        indices = self.node("Unsqueeze", self.cast(positions, np.int64), self.constant([-1]))  # [batch, n, 1]
        return self.node("GatherND", x, indices, batch_dims=1)

    def squeeze(self, x: str, axis: int) -> str:
        """Removes a dimension of size 1 from x."""
        return self.node("Squeeze", x, self.constant([axis]))

    def model(self, inputs: dict[str, tf.TensorSpec], outputs: dict[str, tuple[str, tf.TensorSpec]],
              metadata: dict[str, str]) -> bytes:
        """The ONNX model, serialized, from the specs of its inputs and the tensors and specs of its outputs."""
        helper = self._onnx.helper
        for name, (tensor, _) in outputs.items():
            self._nodes.append(helper.make_node("Identity", [tensor], [name]))
        nodes, stored = self._needed_for(outputs)
        graph = helper.make_graph(nodes, "albert", [self._value_info(*each) for each in inputs.items()],
                                  [self._value_info(name, spec) for name, (_, spec) in outputs.items()], stored)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION,
                                  producer_name="albert_tf")
        helper.set_model_props(model, metadata)
        if model.ByteSize() > 2**31 - 1:
            raise ValueError(f"in {self.precision} the ONNX model has {model.ByteSize() / 1e9:.1f} GB, but the format "
                             "allows at most 2 GB: choose float16 or int8")
        return model.SerializeToString()

    def _needed_for(self, outputs: Iterable[str]) -> tuple[list[Any], list[Any]]:
        """The nodes and the stored weights on which outputs depend."""
        needed, nodes = set(outputs), []
        for node in reversed(self._nodes):  # a node comes after those that compute its inputs
            if needed.intersection(node.output):
                nodes.append(node)
                needed.update(node.input)
        return nodes[::-1], [weight for weight in self._stored if weight.name in needed]

    def _element(self, dtype: DTypeLike) -> int:
        """ONNX's number of a NumPy data type."""
        return self._onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype))

    def _add_bias(self, multiply: Callable[[str], str], name: str, bias: Array | None) -> Callable[[str], str]:
        if bias is None:
            return multiply
        stored = self.weight(f"{name}/bias", bias)
        return lambda x: self.node("Add", multiply(x), stored)

    def _store_scales(self, name: str, integers: np.ndarray, scales: np.ndarray) -> tuple[str, str]:
        """Stores the scales of an int8 matrix [inputs, outputs] and the sums of its columns: those after rounding."""
        sums = integers.sum(axis=0, dtype=np.float32) * scales
        return self._store(f"{name}/scale", scales), self._store(f"{name}/sums", sums)

    def _store(self, name: str, array: np.ndarray) -> str:
        self._stored.append(self._onnx.numpy_helper.from_array(np.ascontiguousarray(array).reshape(array.shape), name))
        return name

    def _value_info(self, name: str, spec: tf.TensorSpec) -> Any:
        dims = [size if size is not None else f"{name}_{axis}" if axis else "batch"
                for axis, size in enumerate(spec.shape.as_list())]
        return self._onnx.helper.make_tensor_value_info(name, self._element(spec.dtype.as_numpy_dtype), dims)


class Table:
    """A stored embedding table [rows, size], for lookups of rows and for products with its transpose."""

    def __init__(self, graph: OnnxGraph, stored: str, scales_and_sums: tuple[str, str] | None = None):
        self._graph, self._stored, self._scales_and_sums = graph, stored, scales_and_sums

    def lookup(self, ids: str) -> str:
        """The rows of ids [...]: float32 [..., size]."""
        graph = self._graph
        rows = graph.node("Gather", self._stored, ids)
        if self._scales_and_sums is None:
            return rows
        scales, _ = self._scales_and_sums
        of_rows = graph.node("Unsqueeze", graph.node("Gather", scales, ids), graph.constant([-1]))
        return graph.node("Mul", graph.cast(rows, np.float32), of_rows)

    def times_transposed(self, x: str) -> str:
        """x [..., size] times the table's transpose: [..., rows]."""
        transposed = self._graph.node("Transpose", self._stored, perm=[1, 0])
        if self._scales_and_sums is None:
            return self._graph.node("MatMul", x, transposed)
        return self._graph.integer_product(x, transposed, *self._scales_and_sums)


def import_package(name: str) -> ModuleType:
    """Imports a package of the extra `onnx`."""
    check_installed("an ONNX model", name)
    return importlib.import_module(name)


def _quantize(kernel: np.ndarray, is_multiplied: bool) -> tuple[np.ndarray, np.ndarray]:
    """Quantizes a kernel [inputs, outputs] to int8, with one float32 scale per output: kernel is integers * scales.

    `is_multiplied`: whether integers are multiplied. Processors with AVX2 and without VNNI add the products of two
    inputs, 2 i and 2 i + 1, in 16 bits with saturation. An input is at most 255, so the sum of two such weights
    must not exceed 128.
    """
    largest = np.abs(kernel).max(axis=0, initial=0)
    if is_multiplied:
        pairs = np.add.reduceat(kernel, range(0, len(kernel), 2), axis=0)
        largest = np.maximum(largest, np.abs(pairs).max(axis=0, initial=0))
    scales = largest / _LARGEST_INTEGER
    return np.rint(kernel / np.where(scales > 0, scales, 1)).astype(np.int8), scales.astype(np.float32)


def _float32(value: Array) -> np.ndarray:
    return np.asarray(tf.cast(value, tf.float32))


class EncoderGraph:
    """An encoder in a graph. Its weights are stored once, and word_table is the table of its word embeddings."""

    def __init__(self, graph: OnnxGraph, encoder: AlbertModel, multiplies_table: bool = False):
        self._graph, self._embeddings, layers = graph, encoder.embeddings, encoder.encoder
        self.word_table = graph.table("bert/embeddings/word_embeddings", encoder.embeddings.word_embeddings,
                                      multiplies_table)
        mapping = layers.embedding_hidden_mapping_in
        self._projected = graph.dense("bert/encoder/embedding_hidden_mapping_in", mapping.kernel,
                                      mapping.bias) if mapping is not None else lambda x: x
        attention = [_attention_block(graph, f"attention_{i}", each) for i, each in enumerate(layers.attention_blocks)]
        ffn = [_ffn_block(graph, f"ffn_{i}", each) for i, each in enumerate(layers.ffn_blocks)]
        self._blocks = [(attention[a], ffn[f]) for a, f in layers.blocks_in_order()]
        self._pooler = graph.dense("bert/pooler/dense", encoder.pooler.kernel, encoder.pooler.bias)

    def outputs(self, inputs: dict[str, str]) -> dict[str, str]:
        """pooled_output [batch, H] and sequence_output [batch, seq, H], from the model's inputs, int32 [batch, seq]."""
        graph = self._graph
        x = self._projected(_embedding_sum(graph, self._embeddings, self.word_table, inputs))  # [batch, seq, H]
        padding = graph.node("Sub", graph.scalar(1), graph.cast(inputs["input_mask"], np.float32))
        scores = graph.node("Mul", padding, graph.scalar(MASKED_SCORE))
        mask = graph.node("Unsqueeze", scores, graph.constant([1, 2]))  # [batch, 1, 1, seq]
        for attention, ffn in self._blocks:
            x = ffn(attention(x, mask))
        first = graph.node("Gather", x, graph.constant(0), axis=1)  # [batch, H]
        return dict(pooled_output=graph.node("Tanh", self._pooler(first)), sequence_output=x)


def pooled(graph: OnnxGraph, outputs: dict[str, str], input_mask: str, pooling: str) -> str:
    """modeling.vectors.pooled."""
    tokens, axis = outputs["sequence_output"], graph.constant([1])
    if pooling == POOLER:
        return outputs["pooled_output"]
    if pooling == "cls":
        return graph.node("Gather", tokens, graph.constant(0), axis=1)
    mask = graph.node("Unsqueeze", graph.cast(input_mask, np.float32), graph.constant([-1]))  # [batch, seq, 1]
    if pooling == "max":
        is_token = graph.node("Greater", mask, graph.scalar(0))
        lowest = graph.scalar(float(np.finfo(np.float32).min))
        return graph.node("ReduceMax", graph.node("Where", is_token, tokens, lowest), axis, keepdims=0)
    summed = graph.node("ReduceSum", graph.node("Mul", tokens, mask), axis, keepdims=0)
    num_tokens = graph.node("Max", graph.node("ReduceSum", mask, axis, keepdims=0), graph.scalar(1))
    return graph.node("Div", summed, num_tokens)


def _embedding_sum(graph: OnnxGraph, embeddings: Embeddings, word_table: Table, inputs: dict[str, str]) -> str:
    """The sum of three tables' rows, normalised: [batch, seq, E]."""
    segment_table = graph.table("bert/embeddings/token_type_embeddings", embeddings.token_type_embeddings)
    position_table = graph.table("bert/embeddings/position_embeddings", embeddings.position_embeddings)
    length = graph.squeeze(graph.node("Shape", inputs["input_ids"], start=1, end=2), 0)
    positions = graph.node("Range", graph.constant(0), length, graph.constant(1))
    summed = graph.node("Add", word_table.lookup(inputs["input_ids"]), segment_table.lookup(inputs["segment_ids"]))
    summed = graph.node("Add", summed, position_table.lookup(positions))
    return graph.layer_norm("bert/embeddings/LayerNorm", embeddings.layer_norm, embeddings.layer_norm.epsilon)(summed)


def _attention_block(graph: OnnxGraph, name: str, block: AttentionBlock) -> Callable[[str, str], str]:
    """Returns the block as a function of x [batch, seq, H] and the additive mask. Its weights are stored once."""
    weights, heads = block.weights_for_step(), block.config.num_attention_heads
    head_size = block.config.hidden_size // heads
    qkv = graph.dense(f"{name}/qkv", weights.qkv_kernel, weights.qkv_bias)
    output = graph.dense(f"{name}/output", weights.output_kernel, weights.output_bias)
    norm = graph.layer_norm(f"{name}/LayerNorm", weights, block.layer_norm.epsilon)

    def of_heads(values: str, perm: list[int]) -> str:
        return graph.node("Transpose", graph.reshape(values, [0, 0, heads, head_size]), perm=perm)

    def apply(x: str, mask: str) -> str:
        query, key, value = graph.nodes("Split", qkv(x), count=3, axis=-1, num_outputs=3)  # [batch, seq, H] each
        scores = graph.node("MatMul", of_heads(query, [0, 2, 1, 3]), of_heads(key, [0, 2, 3, 1]))
        probabilities = graph.node("Softmax", graph.node("Add", scores, mask), axis=-1)  # [batch, heads, seq, seq]
        context = graph.node("MatMul", probabilities, of_heads(value, [0, 2, 1, 3]))
        context = graph.reshape(graph.node("Transpose", context, perm=[0, 2, 1, 3]), [0, 0, block.config.hidden_size])
        return norm(graph.node("Add", output(context), x))

    return apply


def _ffn_block(graph: OnnxGraph, name: str, block: FeedForwardBlock) -> Callable[[str], str]:
    """Returns the block as a function of x [batch, seq, H]. Its weights are stored once."""
    weights = block.weights_for_step()
    intermediate = graph.dense(f"{name}/intermediate", weights.intermediate_kernel, weights.intermediate_bias)
    output = graph.dense(f"{name}/output", weights.output_kernel, weights.output_bias)
    norm = graph.layer_norm(f"{name}/LayerNorm", weights, block.layer_norm.epsilon)

    def apply(x: str) -> str:
        wide = graph.activation(block.config.hidden_act, intermediate(x))
        return norm(graph.node("Add", output(wide), x))

    return apply
