"""Runs a command of ours as tests need it: python script_runner.py COMMAND --flag=value ...

TensorFlow is deterministic. DEVICES is the number of logical CPU devices; KILL_AT_RENAME=n ends the process by SIGKILL
just before its n-th renaming of a file, so in the middle of a save.
"""

import os
import pathlib
import runpy
import signal
import sys

REPOSITORY = pathlib.Path(__file__).parents[2]
sys.path.insert(0, str(REPOSITORY))
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import tensorflow as tf  # noqa: E402

tf.config.experimental.enable_op_determinism()
devices = int(os.environ.get("DEVICES", 1))
if devices > 1:
    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * devices)

renames_left = int(os.environ.get("KILL_AT_RENAME", 0))
replace = os.replace


def counted_replace(*args, **kwargs):
    global renames_left
    renames_left -= 1
    if renames_left == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    replace(*args, **kwargs)


os.replace = counted_replace
if sys.argv[1].endswith(".py"):
    sys.argv = sys.argv[1:]
    runpy.run_path(str(REPOSITORY / sys.argv[0]), run_name="__main__")
else:
    runpy.run_module("albert_tf", run_name="__main__", alter_sys=True)
