"""TF-Hub modules of both generations for tests, with a tiny model in them."""

import numpy as np
import tensorflow as tf
import tiny
from tiny import values_of

from albert_tf.modeling.pretrainer import AlbertPretrainer

TINY = tiny.TINY.replace(num_hidden_layers=3, max_position_embeddings=6)
INPUTS = ("input_word_ids", "input_mask", "input_type_ids")
BATCH = dict(input_ids=np.array([[2, 5, 3, 0]], np.int32), input_mask=np.array([[1, 1, 1, 0]], np.int32),
             segment_ids=np.array([[0, 0, 1, 0]], np.int32))


def tf1_module(path, vocabulary_file, config=TINY, lower=False, scopes=True):
    """A module as the release's export makes it: its variables, its scopes of layers and heads, its signatures."""
    values = values_of(AlbertPretrainer(config))
    heads, size = config.num_attention_heads, config.hidden_size // config.num_attention_heads
    v1 = tf.compat.v1
    with tf.Graph().as_default(), v1.Session() as session:
        variables = {name: v1.get_variable(name, initializer=value, use_resource=False)
                     for name, value in values.items()}
        for layer in range(config.num_hidden_layers if scopes else 0):
            block = "bert/encoder/transformer/group_0/inner_group_0/"
            with tf.name_scope(f"module/bert/encoder/transformer/group_0_{layer}/layer_{layer}/inner_group_0"):
                kernel = variables[f"{block}attention_1/self/query/kernel"]
                tf.reshape(kernel, [config.hidden_size, heads, size], name="attention_1/self/query/Reshape")
                with tf.name_scope("ffn_1/intermediate/dense"):
                    tf.nn.gelu(variables[f"{block}ffn_1/intermediate/dense/bias"], approximate=True)
        file = tf.constant(vocabulary_file)
        v1.add_to_collection(v1.GraphKeys.ASSET_FILEPATHS, file)
        ids = v1.placeholder(tf.int32, [None, None])
        table = variables["bert/embeddings/word_embeddings"]
        signatures = dict(tokens=signature(dict(input_ids=ids), dict(sequence_output=tf.gather(table, ids))),
                          tokenization_info=signature({}, dict(vocab_file=file, do_lower_case=tf.constant(lower))))
        session.run(v1.global_variables_initializer())
        builder = v1.saved_model.Builder(str(path))
        builder.add_meta_graph_and_variables(session, [], signature_def_map=signatures,
                                             assets_collection=v1.get_collection(v1.GraphKeys.ASSET_FILEPATHS))
        builder.add_meta_graph(["train"], signature_def_map=signatures)
        builder.save()
    return values


def signature(inputs, outputs):
    inputs, outputs = ({name: tf.compat.v1.saved_model.build_tensor_info(tensor) for name, tensor in tensors.items()}
                       for tensors in (inputs, outputs))
    return tf.compat.v1.saved_model.build_signature_def(inputs, outputs)


def tf2_module(path, encoder=None, writes=None):
    """A module with the variables of an encoder, or with one of another name.

    Where `writes` is a path, every call writes a file there.
    """
    module = tf.train.Checkpoint()
    module.variables = encoder.weights if encoder else [tf.Variable(tf.zeros([20, 8]), name="a_table")]

    @tf.function(input_signature=[{name: tf.TensorSpec([None, None], tf.int32) for name in INPUTS}])
    def call(inputs):
        if writes:
            tf.io.write_file(writes, "the module has run")
        words = tf.gather(module.variables[0], inputs["input_word_ids"])
        return dict(sequence_output=words, pooled_output=tf.reduce_sum(words, 1))

    setattr(module, "__call__", call)  # noqa: B010  of the object, not of its class: hub.load calls it
    tf.saved_model.save(module, str(path))
