"""The uses of a pre-trained masked-LM head: masks, scores of sentences."""
