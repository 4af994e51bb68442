"""Hugging Face's folders: config.json, model.safetensors, spiece.model."""
