"""Classification and regression of texts: GLUE, and tasks of one's own."""
