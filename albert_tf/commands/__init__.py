"""The commands: one module with define_flags() and main() for each."""
