"""A small HTTP server for models, and the page on which to try them (serve)."""
