"""Pre-training data: converts texts to records, and records to batches."""
