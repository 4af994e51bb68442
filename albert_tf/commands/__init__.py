"""The commands: one module with Options, a config, and main(options) for each; usage.py lists them.

`python -m albert_tf NAME` runs one. The scripts at the top of a checkout have names that users of the release know, and
run the same modules.
"""
