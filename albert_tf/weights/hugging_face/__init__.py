"""Reads and writes Hugging Face folders: config.json, model.safetensors, spiece.model."""
