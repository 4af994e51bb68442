"""The same as albert_tf.text, as TensorFlow operations."""
