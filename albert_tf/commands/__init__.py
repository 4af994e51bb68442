"""The commands: one module with define_flags() and main() for each; names.py lists them.

`python -m albert_tf NAME` runs one. The scripts at the top of a checkout, whose names users of the release know, run the
same modules.
"""
