"""TF-Hub modules of both generations."""
