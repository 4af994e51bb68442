"""What knows nothing of models: files, JSON, manifests, validation, progress."""
