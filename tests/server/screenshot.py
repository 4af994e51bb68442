"""Makes docs/serving_page.png: serve's page with albert_tiny_en, after its example was sent.

    python tests/server/screenshot.py
"""

import pathlib
import sys

REPOSITORY = pathlib.Path(__file__).parents[2]
sys.path[:0] = map(str, (REPOSITORY, REPOSITORY / "tests/helpers"))

from browser import browser  # noqa: E402
from server_running import running  # noqa: E402

from albert_tf.server.models import model_of_source  # noqa: E402
from albert_tf.weights.stored_model import open_model  # noqa: E402

MODEL = "albert_tiny_en"
SENTENCE = "She opened the [MASK] and went out."


def main():
    """Writes the file."""
    with browser() as page, running([model_of_source(MODEL, open_model(MODEL))]) as server:
        page.show(700, 640, "light")
        page.open(server.url)
        page.click(MODEL)
        page.fill("text", SENTENCE)
        page.click("Fill", "#form button")
        page.wait_for("return document.querySelector('.bar') !== null")
        (REPOSITORY / "docs/serving_page.png").write_bytes(page.screenshot())


if __name__ == "__main__":
    main()
