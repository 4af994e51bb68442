"""Pre-training: texts to records, and records to batches."""
