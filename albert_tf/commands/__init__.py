"""The commands: one module with Options, a config, and main(options) for each; app.py lists them.

run_pretraining and the commands that fine-tune on one task are packages instead: albert_tf.pretraining, and packages
of albert_tf.tasks.

`python -m albert_tf NAME` runs one. The scripts at the top of a checkout have names that users of the release know, and
run the same code.
"""
