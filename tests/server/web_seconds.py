"""Prints sizes and times of pages without a server in Chromium: albert_tiny_en, albert_base with random weights.

    python tests/server/web_seconds.py .environments/web/node_modules

The files come from this machine, so the time to the first answer is that of a page that is in the browser's cache.
"""

import gzip
import pathlib
import sys
import tempfile
import time

REPOSITORY = pathlib.Path(__file__).parents[2]
sys.path[:0] = map(str, (REPOSITORY, REPOSITORY / "tests/helpers"))

from browser import browser  # noqa: E402
from web_pages import static_site, write_page  # noqa: E402

import albert_tf  # noqa: E402
from albert_tf.export.onnx.hugging_face import FILES  # noqa: E402

NUM_ANSWERS = 20
TEXTS = dict(short="She opened the [MASK] and went out.",
             long="She opened the door, and she did not look back at the house. " * 8 + "The [MASK] was cold.")


def main(node_modules):
    """Prints a line for each model and precision."""
    tiny = albert_tf.from_pretrained("albert_tiny_en", model="pretrainer")
    base = albert_tf.AlbertPretrainer(albert_tf.AlbertConfig.preset("albert_base_v2"))
    for name, model, precision in [("albert_tiny_en", tiny, "int8"), ("albert_tiny_en", tiny, "float32"),
                                   ("albert_base", base, "int8")]:
        with tempfile.TemporaryDirectory() as folder:
            write_page(folder, name, model, node_modules, precision)
            sizes = {path.name: (path.stat().st_size, len(gzip.compress(path.read_bytes())))
                     for path in pathlib.Path(folder).rglob("*") if path.is_file()}
            onnx = pathlib.Path(FILES[precision]).name
            total, packed = (sum(each) / 1e6 for each in zip(*sizes.values()))
            first, answers = seconds(folder)
            print(f"{name} {precision}: folder {total:.1f} MB, by gzip {packed:.1f}; model {sizes[onnx][0] / 1e6:.1f}, "
                  f"by gzip {sizes[onnx][1] / 1e6:.1f}; first answer {first:.2f} s; "
                  + ", ".join(f"{text} text {ms:.1f} ms" for text, ms in answers.items()), flush=True)


def seconds(folder):
    """The seconds to the first answer, and the median milliseconds of an answer to each text."""
    with browser() as page, static_site(folder) as url:
        start = time.monotonic()
        page.open(f"{url}/index.html")
        page.click("Fill", "#form button")
        page.wait_for("return document.querySelector('.bar') !== null")
        first = time.monotonic() - start
        page.script("""(async () => {
            const backend = await import("./backend.js"), milliseconds = {};
            const model = (await (await fetch("models.json")).json()).models[0];
            for (const [name, text] of Object.entries(arguments[0])) {
              const request = {signature_name: "serving_default", instances: [{text}]}, times = [];
              for (let i = 0; i < arguments[1]; i++) {
                const start = performance.now();
                await backend.predict(model, request);
                times.push(performance.now() - start);
              }
              milliseconds[name] = times.sort((a, b) => a - b)[times.length >> 1];
            }
            window.milliseconds = milliseconds;
          })()""", TEXTS, NUM_ANSWERS)
        return first, page.wait_for("return window.milliseconds")


if __name__ == "__main__":
    main(sys.argv[1])
