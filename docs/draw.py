"""Draws the pictures of the pages: docs/pictures/*.svg, from the configs of the package and from docs/measured.

    python docs/draw.py

Each picture has colors for a light and for a dark page. tests/test_pictures.py checks that they are current.
"""

from __future__ import annotations

import csv
import html
import math
import pathlib
from typing import Callable, Iterable

from albert_tf.config import AlbertConfig

DOCS = pathlib.Path(__file__).parent
STYLE = """
text { font: 13px system-ui, sans-serif; fill: #1f2328 } .small { font-size: 11px; fill: #59636e }
.title { font-weight: 600 } .box { fill: #f6f8fa; stroke: #8c959f } .axis { stroke: #8c959f; fill: none }
.ours { fill: #0969da; stroke: #0969da } .other { fill: #bc4c00; stroke: #bc4c00 }
.unclear { fill: #8c959f; stroke: #8c959f }
@media (prefers-color-scheme: dark) {
text { fill: #f0f6fc } .small { fill: #9198a1 } .box { fill: #151b23; stroke: #656c76 } .axis { stroke: #656c76 }
.ours { fill: #4493f8; stroke: #4493f8 } .other { fill: #f0883e; stroke: #f0883e }
.unclear { fill: #656c76; stroke: #656c76 } }
"""


class Drawing:
    """The elements of an SVG of a width and height, in pixels."""

    def __init__(self, width: int, height: int, description: str):
        self._size, self._description, self._elements = (width, height), description, list[str]()

    def add(self, element: str, content: str = "", **attributes: object) -> None:
        """Adds an element. `cls` is its class; "_" in the name of an attribute means "-"."""
        named = {"class" if name == "cls" else name.replace("_", "-"): value for name, value in attributes.items()}
        pairs = " ".join(f'{name}="{f"{value:.1f}" if isinstance(value, float) else value}"'
                         for name, value in named.items())
        self._elements.append(f"<{element} {pairs}>{html.escape(content)}</{element}>" if content
                              else f"<{element} {pairs}/>")

    def text(self, x: float, y: float, content: str, cls: str = "", anchor: str = "start") -> None:
        self.add("text", content, x=x, y=y, cls=cls, text_anchor=anchor)

    def box(self, x: float, y: float, width: float, height: float, lines: Iterable[str], cls: str = "box") -> None:
        """A box with lines of text in its middle, the first one as its title."""
        self.add("rect", x=x, y=y, width=width, height=height, rx=6, cls=cls)
        lines = list(lines)
        top = y + height / 2 - 8 * (len(lines) - 1) + 4
        for number, line in enumerate(lines):
            self.text(x + width / 2, top + 16 * number, line, "small" if number else "title", "middle")

    def arrow(self, points: str) -> None:
        self.add("polyline", points=points, cls="axis", marker_end="url(#end)")

    def __str__(self) -> str:
        width, height = self._size
        return "\n".join([
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
            f'role="img">', f"<title>{html.escape(self._description)}</title>", f"<style>{STYLE}</style>",
            '<marker id="end" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
            '<path d="M0 0L8 4L0 8z" class="unclear"/></marker>', *self._elements, "</svg>", ""])


def rows_of(name: str) -> list[dict[str, str]]:
    """The rows of a file of docs/measured."""
    with open(DOCS / "measured" / name, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def number_of_parameters(config: AlbertConfig) -> int:
    """The number of parameters of an encoder with its pooler, whose layers share all weights or none."""
    hidden, inner, embedding = config.hidden_size, config.intermediate_size, config.embedding_size
    table = (config.vocab_size + config.max_position_embeddings + config.type_vocab_size + 2) * embedding
    mapping = 0 if embedding == hidden else (embedding + 1) * hidden
    layer = 4 * (hidden + 1) * hidden + (hidden + 1) * inner + (inner + 1) * hidden + 4 * hidden
    return table + mapping + len({*config.attention_blocks}) * layer + (hidden + 1) * hidden


def architecture() -> Drawing:
    """ALBERT in one drawing, with the formats that it comes from and goes to, and its sizes beside BERT's."""
    config = AlbertConfig.preset("albert_base_v2")
    picture = Drawing(820, 470, "ALBERT: a factorized embedding table and one layer that is used many times")
    picture.text(14, 24, "Read", "title")
    for number, lines in enumerate((
            ("TF1 checkpoint", "google-research/albert"), ("Hugging Face", "safetensors, .bin"),
            ("PL-BERT, Kokoro", "config.yml and .t7"), ("TF-Hub, keras-hub", "modules, presets"))):
        picture.box(14, 36 + 58 * number, 156, 46, lines)
    picture.text(650, 24, "Written", "title")
    for number, lines in enumerate((("TF1, Hugging Face", "also .t7, TF-Hub"), ("SavedModel", "takes texts; serve"),
                                    ("ONNX, int8", "server or web page"), ("TensorFlow Lite", "on a phone"))):
        picture.box(650, 36 + 58 * number, 156, 46, lines)
    vocabulary, width, hidden = config.vocab_size, config.embedding_size, config.hidden_size
    picture.box(240, 36, 340, 46, ("Embedding table", f"{vocabulary:,} pieces x {width}: not x {hidden}, as in BERT"))
    picture.arrow("410,82 410,98")
    picture.box(240, 98, 340, 34, (f"Projection {width} to {hidden}",))
    picture.arrow("410,132 410,148")
    picture.box(240, 148, 250, 66, ("One layer", f"attention, {config.num_attention_heads} heads",
                                    f"feed-forward, {config.intermediate_size:,}"))
    picture.arrow("490,200 526,200 526,162 490,162")
    picture.text(534, 178, f"{config.num_hidden_layers} times,")
    picture.text(534, 194, "the same weights", "small")
    picture.arrow("410,214 410,230")
    picture.box(240, 230, 340, 46, ("Heads", "masks, sentence order, labels, answers, tags, vectors"))
    picture.arrow("170,150 236,150")
    picture.arrow("584,150 646,150")
    picture.text(14, 304, "Parameters of the published sizes, in millions", "title")
    presets = ("albert_base_v2", "albert_large_v2", "albert_xlarge_v2", "albert_xxlarge_v2", "bert_base", "bert_large")
    sizes = {name: number_of_parameters(AlbertConfig.preset(name)) for name in presets}
    scale = 560 / max(sizes.values())
    for row, (name, size) in enumerate(sizes.items()):
        y = 316 + 25 * row
        model, size_name, *_ = name.split("_")
        picture.text(150, y + 14, f"{model.upper()} {size_name}", anchor="end")
        picture.add("rect", x=160, y=y, width=size * scale, height=18, rx=2,
                    cls="other" if name.startswith("bert") else "ours")
        picture.text(166 + size * scale, y + 14, f"{size / 1e6:.1f}", "small")
    return picture


def axis(
    picture: Drawing, x_of: Callable[[float], float], ticks: Iterable[float], y: int, top: int, title: str
) -> None:
    """A horizontal axis at y, with a line up to `top` at each tick."""
    for tick in ticks:
        picture.add("line", x1=x_of(tick), x2=x_of(tick), y1=top, y2=y, cls="axis", stroke_opacity=0.35)
        picture.text(x_of(tick), y + 16, f"{tick:g}", "small", "middle")
        last = tick
    picture.text(x_of(last), y + 34, title, "small", "end")


# (study, configuration, other, what was compared, whether the paper finds a gain, a loss, or has no study)
FINDINGS = (
    ("embedding_size", "all shared, 256", "all shared, 128", "E = 256 instead of 128, layers shared", "-"),
    ("embedding_size", "not shared, 256", "not shared, 128", "E = 256 instead of 128, not shared", "+"),
    ("sharing", "128, all shared", "128, not shared", "all layers shared, E = 128", "-"),
    ("sentence_objective", "none", "sop", "no sentence objective instead of SOP", "+"),
    ("sentence_objective", "nsp", "sop", "NSP instead of SOP", "-"),
    ("equal_time", "ALBERT, H 384, 1,500 steps", "BERT, H 256, 2,500 steps", "wide ALBERT, not BERT, in equal time",
     "+"),
    ("additional_data", "additional text", "one text", "additional text of another kind", "+"),
    ("dropout", "without dropout", "with dropout", "no dropout", "+"),
    ("depth", "12", "1, 2,800 steps", "12 layers instead of more steps", "+"),
    ("width", "256", "64", "H = 256 instead of 64", "+"),
    ("ngram", "3", "1", "n-grams of up to 3 words", ""),
    ("masked_share", "30 %", "15 %", "30 % masked instead of 15 %", ""),
    ("batches", "32 x 32", "128 x 32", "batches of 32 and four times the steps", ""),
    ("initial_weights", "0.02", "0.06", "initial weights of 0.02, not 0.06", ""),
)


def findings() -> Drawing:
    """The difference of each design choice in masked-LM accuracy, with its interval, beside the paper's finding."""
    measured = {(row["study"], row["configuration"], row["other"]): row
                for row in rows_of("study_differences.csv") if row["column"] == "masked LM"}
    height = 62 + 24 * len(FINDINGS)
    picture = Drawing(820, height + 44, "Differences in masked-LM accuracy with their 95 % intervals")

    def x_of(points: float) -> float:
        return 545.0 + points * 15

    axis(picture, x_of, range(-15, 16, 5), height, 40,
         "difference in masked-LM accuracy, points, with its 95 % interval")
    picture.add("line", x1=x_of(0), x2=x_of(0), y1=40, y2=height, cls="axis")
    picture.text(14, 24, "Design choice, at a small scale", "title")
    picture.text(300, 24, "paper", "title", "middle")
    for number, (study, configuration, other, choice, paper) in enumerate(FINDINGS):
        row = measured[study, configuration, other]
        difference, low, high = (float(row[name]) for name in ("difference", "low", "high"))
        y, cls = 54 + 24 * number, "ours" if low > 0 else "other" if high < 0 else "unclear"
        picture.text(14, y + 4, choice)
        picture.text(300, y + 4, {"+": "better", "-": "worse"}.get(paper, "no study"), "small", "middle")
        picture.add("line", x1=x_of(low), x2=x_of(high), y1=y, y2=y, cls=cls, stroke_width=3)
        picture.add("circle", cx=x_of(difference), cy=y, r=5, cls=cls)
    return picture


def speed() -> Drawing:
    """Training steps and sentences a second as multiples of Hugging Face's."""
    rows = {(row["section"], row["row"]): row["value"] for row in rows_of("speed.csv")
            if row["column"] == "ratio" and row["page"] == "results/speed.md"}
    bars = []
    for (section, name), value in rows.items():
        if section not in ("A training step", "Serving"):
            continue
        low, high = (float(part) for part in (value.split(" to ") * 2)[:2])
        if name.endswith(", ms"):  # times: the multiple of the rate is their inverse
            name, low, high = name.removesuffix(", ms"), 1 / high, 1 / low
        if section == "A training step":
            model, _, dropout, precision = name.split(", ")
            name = f"step, {model}, {precision}" + (f", dropout {dropout}" if dropout != "0" else "")
        elif name.endswith("int8"):
            name += " (theirs: float32)"
        bars.append((name.removesuffix(", a second"), low, high))
    height = 50 + 26 * len(bars)
    picture = Drawing(820, height + 44, "Speed as a multiple of Hugging Face's on PyTorch")

    def x_of(ratio: float) -> float:
        return 330 + ratio * 92

    picture.text(14, 24, "Speed beside Hugging Face on PyTorch (AMD EPYC, two cores)", "title")
    axis(picture, x_of, range(0, 6), height, 36,
         "times as fast as Hugging Face: lowest to highest of three or four runs")
    picture.add("line", x1=x_of(1), x2=x_of(1), y1=36, y2=height, cls="axis")
    for number, (name, low, high) in enumerate(bars):
        y = 42 + 26 * number
        picture.text(322, y + 13, name, anchor="end")
        picture.add("rect", x=x_of(0), y=y, width=low * 92, height=17, rx=2, cls="ours", fill_opacity=0.6)
        picture.add("rect", x=x_of(low), y=y + 4, width=max(2.0, (high - low) * 92), height=9, cls="ours")
        picture.text(x_of(high) + 8, y + 13, " to ".join(dict.fromkeys((f"{low:.2f}", f"{high:.2f}"))), "small")
    return picture


def sizes() -> Drawing:
    """The size of sentence models in int8 and how well they find similar sentences."""
    names = {"teacher": "all-MiniLM-L6-v2 (a BERT)", "albert_minilm_en": "albert_minilm_en, in the package",
             "one shared layer": "one shared layer, vectors alone"}
    points = {names[row["configuration"]]: (float(row["megabytes"]), float(row["int8_spearman"]))
              for row in reversed(rows_of("bert_to_albert.csv")) if row["configuration"] in names}
    picture = Drawing(820, 300, "Size in int8 and score of small sentence models")

    def x_of(megabytes: float) -> float:
        return 80 + megabytes * 26

    def y_of(score: float) -> float:
        return 240 - (score - 0.78) * 2000

    picture.text(14, 24, "Sentence models in int8: size and Spearman's correlation on STS-B's dev set", "title")
    axis(picture, x_of, range(0, 26, 5), 240, 44, "megabytes of the ONNX file")
    for tick in (0.80, 0.82, 0.84, 0.86):
        picture.add("line", x1=80, x2=x_of(25), y1=y_of(tick), y2=y_of(tick), cls="axis", stroke_opacity=0.35)
        picture.text(72, y_of(tick) + 4, f"{tick:.2f}", "small", "end")
    for name, (megabytes, score) in points.items():
        cls = "other" if "BERT" in name else "ours"
        picture.add("circle", cx=x_of(megabytes), cy=y_of(score), r=7, cls=cls)
        is_right = megabytes > 15
        picture.text(x_of(megabytes) - 12 if is_right else x_of(megabytes) + 12, y_of(score) + 4,
                     f"{name}: {megabytes:.1f} MB, {score:.3f}", anchor="end" if is_right else "start")
    return picture


def losses() -> Drawing:
    """The loss before each of eight updates: google-research/albert's as circles, albert_tf's as lines."""
    picture = Drawing(820, 320, "The loss of eight updates by google-research/albert and by albert_tf")
    groups: dict[str, list[dict[str, str]]] = {}
    for row in rows_of("first_updates.csv"):
        groups.setdefault(row["optimizer"], []).append(row)
    values = [float(row[name]) for rows in groups.values() for row in rows for name in ("original", "albert_tf")]
    low, high = min(values) - 0.2, max(values) + 0.2

    def x_of(update: float) -> float:
        return 20 + update * 80

    def y_of(loss: float) -> float:
        return 250 - (loss - low) / (high - low) * 200

    picture.text(14, 24, "Loss before each update: a tiny model, the same batches and initial weights", "title")
    axis(picture, x_of, range(1, 9), 260, 44, "update")
    for tick in range(math.ceil(low), math.floor(high) + 1):
        picture.add("line", x1=x_of(1), x2=x_of(8), y1=y_of(tick), y2=y_of(tick), cls="axis", stroke_opacity=0.35)
        picture.text(x_of(1) - 12, y_of(tick) + 4, str(tick), "small", "end")
    for optimizer, rows in groups.items():
        points = [(x_of(float(row["update"])), row) for row in rows]
        picture.add("polyline", points=" ".join(f"{x:.1f},{y_of(float(row['albert_tf'])):.1f}" for x, row in points),
                    cls="ours", style="fill: none", stroke_width=2)
        for x, row in points:
            picture.add("circle", cx=x, cy=y_of(float(row["original"])), r=6, cls="other", fill_opacity=0.4)
        title = {"lamb": "LAMB", "adamw": "AdamW"}[optimizer]
        picture.text(x_of(8) + 12, y_of(float(rows[-1]["albert_tf"])) + 4, title)
    picture.text(14, 310, "circles: google-research/albert; lines: albert_tf", "small")
    return picture


PICTURES = dict(architecture=architecture, findings=findings, speed=speed, sizes=sizes, losses=losses)

if __name__ == "__main__":
    (DOCS / "pictures").mkdir(exist_ok=True)
    for file_name, draw in PICTURES.items():
        (DOCS / "pictures" / f"{file_name}.svg").write_text(str(draw()), "utf-8")
