"""Utilities that do not depend on models: files, JSON, manifests, validation, progress."""
