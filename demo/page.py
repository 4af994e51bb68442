"""A page of HTML with what the demo has made."""

from __future__ import annotations

import csv
import html
import os
from typing import Mapping, Sequence

from albert_tf.utils.outputs import write_text

SHOWN = 12  # answers of the classifier
_STYLE = ("body{font:16px system-ui,sans-serif;max-width:52em;margin:2em auto;padding:0 1em;color-scheme:light dark}"
          "table{border-collapse:collapse}td,th{padding:.2em .8em;text-align:left;border-bottom:1px solid #8884}"
          "img{max-width:100%;background:#fff}pre{overflow:auto}")


def write(folder: str, fillings: Mapping[str, str], scores: Mapping[str, Sequence[float]], accuracies: Sequence[float],
          pretrained: str, classifier: str) -> str:
    """Writes index.html to the folder of the demo, and returns its path.

    Args:
      fillings: what fill_mask printed, by a title.
      scores: for each accuracy on held-out pages: before, after, by guessing.
      accuracies: of the classifiers with and without pre-training.
      pretrained, classifier: the directories of their runs.
    """
    with open(os.path.join(classifier, "dev_predictions.csv"), newline="", encoding="utf-8-sig") as file:
        answers = [[row["text_a"], row["prediction"]] for row in csv.DictReader(file)][:SHOWN]
    curve = os.path.relpath(os.path.join(pretrained, "eval_history.svg"), folder)
    parts = ["<h1>An ALBERT of 6 MB reads new text</h1>", "<h2>Masks</h2>"]
    for title, printed in fillings.items():
        parts += [f"<h3>{html.escape(title)}</h3>", f"<pre>{html.escape(printed)}</pre>"]
    parts += ["<h2>Pre-training goes on</h2>",
              _table(["on held-out pages", "before", "after", "by guessing"],
                     [[name, *(f"{value:.3f}" for value in values)] for name, values in scores.items()]),
              f'<p><img src="{html.escape(curve)}" alt="The accuracy and the loss after each evaluation"></p>',
              "<h2>Were two words swapped?</h2>",
              _table(["accuracy", "pre-trained", "not pre-trained", "by guessing"],
                     [["on held-out sentences", *(f"{accuracy:.3f}" for accuracy in accuracies), "0.500"]]),
              _table(["sentence", "answer"], answers)]
    path = os.path.join(folder, "index.html")
    write_text(path, f'<!doctype html><meta charset="utf-8"><title>albert_tf</title><style>{_STYLE}</style>\n'
               + "\n".join(parts) + "\n")
    return path


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [f"<tr>{''.join(f'<th>{html.escape(cell)}</th>' for cell in head)}</tr>"]
    lines += [f"<tr>{''.join(f'<td>{html.escape(cell)}</td>' for cell in row)}</tr>" for row in rows]
    return f"<table>{''.join(lines)}</table>"
