"""Reads presets of keras-hub's ALBERT."""
