"""A small text for tests of pre-training from raw text: ten documents of eight sentences."""

WORDS = "the old king saw a ship and the young queen sang of a cold sea while no man slept on that long night".split()


def write_synthetic_text(path):
    """Writes the text to a pathlib.Path, one sentence a line and a blank line between documents. Returns the path."""
    sentences = [" ".join(WORDS[(7 * i + j * j) % len(WORDS)] for j in range(i % 5 + 4)) for i in range(80)]
    path.write_text("\n\n".join("\n".join(sentences[start : start + 8]) for start in range(0, 80, 8)))
    return path
