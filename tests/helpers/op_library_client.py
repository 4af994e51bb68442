"""Loads SavedModels as a program in another language does: with a few op libraries instead of tensorflow_text.

    python op_library_client.py LIBRARY,... FOLDER

The result is the exit status.
"""

import importlib.util
import os
import sys

import tensorflow as tf

libraries, folder = sys.argv[1:]
package = os.path.dirname(importlib.util.find_spec("tensorflow_text").origin)  # which is not imported
for library in libraries.split(","):
    tf.load_op_library(os.path.join(package, "python/ops", library))
serve = tf.saved_model.load(folder).signatures["serving_default"]
outputs = serve(text=tf.constant(["Ada [MASK] a boat."]))
assert outputs and not any(name.startswith(("albert_tf", "tensorflow_text")) for name in sys.modules)
