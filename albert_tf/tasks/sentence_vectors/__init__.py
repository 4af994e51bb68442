"""Vectors of sentences: training, files, search."""
