"""Lists of rows, for the workers that run models in PyTorch."""


def batches(rows, size):
    """The rows in lists of `size`; the last list may be shorter."""
    return [rows[i : i + size] for i in range(0, len(rows), size)]
