"""The tables of the pages follow from the measured values in docs/measured."""

import collections
import csv
import re
import statistics

import numpy as np
from script_session import REPOSITORY

from studies.intervals import standard_error

DOCS = REPOSITORY / "docs"


def read_rows(name):
    with open(DOCS / "measured" / name, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def section_of(page, heading):
    text = (DOCS / page).read_text("utf-8")
    found = re.search(rf"^(#+) {re.escape(heading)}$", text, re.MULTILINE)
    return re.split(rf"^#{{2,{max(2, len(found[1]))}}} ", text[found.end():], flags=re.MULTILINE)[0]


def table_lines(page, heading):
    """The cells of each line of a section's tables; the line below a head begins with "---"."""
    return [[cell.strip() for cell in line.strip("|").split("|")]
            for line in section_of(page, heading).splitlines() if line[:1] == "|"]


def table_rows(page, heading):
    """The cells of the rows of a section's tables, with their heads."""
    return [cells for cells in table_lines(page, heading) if cells[0] != "---"]


def scores(rows, **values):
    """The scores of the rows that have these values in their columns."""
    return [float(row["score"]) for row in rows if values.items() <= row.items()]


def median_and_range(values, digits=3):
    return f"{statistics.median(values):.{digits}f} ({min(values):.{digits}f} to {max(values):.{digits}f})"


def difference_of_medians(values, others, digits=3):
    """How much higher the median of the values is, with the standard error of the difference of means."""
    error = (statistics.variance(values) / len(values) + statistics.variance(others) / len(others)) ** 0.5
    return f"{statistics.median(values) - statistics.median(others):.{digits}f} ({error:.{digits}f})"


def test_rows_of_medians_follow_from_the_scores_of_the_seeds():
    beside = {(row["task"], row["program"]): [float(row[name]) for name in ("lowest", "median", "highest")]
              for row in read_rows("fine_tuning_beside_hugging_face.csv")}
    shown = {row[0]: row[1:4] for row in table_rows("results/accuracy.md", "Fine-tuning beside Hugging Face")}
    for task in {task for task, _ in beside}:
        pair, digits = [beside[task, name] for name in ("albert_tf", "Hugging Face")], 1 if "SQuAD" in task else 3
        assert shown[task] == [*(median_and_range(each, digits) for each in pair), difference_of_medians(*pair, digits)]
    tiny = read_rows("albert_tiny_en.csv")
    pairs = [[scores(tiny, task=task, metric=metric, weights=weights) for weights in ("pre-trained", "random")]
             for task, metric in dict.fromkeys((row["task"], row["metric"]) for row in tiny)]
    assert [row[1:4] for row in table_rows("results/accuracy.md", "albert_tiny_en")
            if re.match("SST-2|STS-B|the same|RTE", row[0])] == [
        [*map(median_and_range, pair), difference_of_medians(*pair)] for pair in pairs]


def test_the_figures_of_the_readme_are_those_of_the_pages():
    rows = [line for line in table_lines("../README.md", "How good") if "](" in line[0]]
    assert len(rows) == 5
    for row, *cells in rows:
        page, _, anchor = re.search(r"\]\(docs/([^)]*)\)", row)[1].partition("#")
        text = (DOCS / page).read_text("utf-8")
        heading = next((heading for heading in re.findall(r"^#+ (.+)$", text, re.MULTILINE)
                        if re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") == anchor), None)
        for number in re.findall(r"\d+\.\d+(?: to \d+\.\d+)?|\d{3} to \d{3}", " ".join(cells)):
            assert number in (section_of(page, heading) if heading else text), (row, number)


def test_each_table_of_results_names_its_machine_and_what_stands_beside():
    for path in (DOCS / "results").glob("*.md"):
        text = path.read_text("utf-8")
        tables = [text[:table.start()] for table in re.finditer(r"(?m)^\|.*\n\|---", text)]
        assert tables and [before[-80:] for before in tables
                           if not re.search(r"\n_Machine: [^|]*\bBeside: [^|]*\._\n\n$", before)] == []
        assert text.rpartition("\n## ")[2].startswith("Reproduce\n")


def test_every_interval_of_the_verdicts_is_one_of_the_differences():
    verdicts = (DOCS / "results/studies.md").read_text("utf-8").partition("## Verdicts")[2].partition("\n## ")[0]
    shown = re.findall(r"([+-][\d.]+) to ([+-][\d.]+)", verdicts)
    measured = {(float(row["low"]), float(row["high"])) for row in read_rows("study_differences.csv")}
    assert len(shown) > 12 and {(float(low), float(high)) for low, high in shown} <= measured


def mean_and_error(values, digits=3, sign=""):
    """The mean of the values with its standard error, if there are several."""
    error = f" ({standard_error(values):.{digits}f})" if len(values) > 1 else ""
    return f"{statistics.mean(values):{sign}.{digits}f}{error}" if values else ""


def by_column(rows, column):
    """The rows by their value in a column, in the order of the file."""
    groups = collections.defaultdict(list)
    for row in rows:
        groups[row[column]].append(row)
    return groups


def test_what_a_teacher_gained_in_fine_tuning_follows_from_the_scores_of_the_seeds():
    models = by_column(read_rows("teacher_in_fine_tuning.csv"), "model")
    shown = re.findall(r"0\.\d{3} \(0\.\d{3}\)", section_of("results/accuracy.md", "A teacher"))
    measured = [mean_and_error(scores(rows)) for rows in models.values()]
    assert shown == measured and len(measured) == 4


def test_the_rows_of_the_small_models_follow_from_the_scores_of_the_seeds():
    models = by_column(read_rows("small_models.csv"), "model")
    header, *shown = table_rows("results/accuracy.md", "A small model that learns tasks")
    assert len(shown) == len(models) == 2
    assert shown == [[name, *(mean_and_error(scores(rows, task=task)) for task in header[1:])]
                     for name, rows in models.items()]


def test_the_rows_of_int8_follow_from_the_measured_values():
    tasks, shown = by_column(read_rows("int8_tasks.csv"), "task"), table_rows("results/accuracy.md", "int8")[1:]
    assert len(tasks) > 4
    for (name, *cells), (task, rows) in zip(shown, tasks.items()):
        of_export = {export: scores(own) for export, own in by_column(rows, "export").items()}
        digits, before = 1 if task.startswith("squad") else 3, of_export["float32"]
        assert name.endswith(f"; {len(before)}") and cells[0] == f"{statistics.mean(before):.{digits}f}"
        assert cells[1:] == [mean_and_error([after - score for after, score in zip(of_export.get(export, []), before)],
                                            digits, "+")
                             for export in ("ONNX, int8", "ONNX, int8, one range for all tokens",
                                            "TensorFlow Lite, int8")]


def formatted(row, formats):
    """The values of columns, in their formats."""
    return [format(float(row[name]), digits) if row[name] else "" for name, digits in formats.items()]


def test_the_rows_of_phonemes_follow_from_the_scores_of_the_seeds():
    shown = {row[0]: row[1:] for row in table_rows("results/accuracy.md", "Phonemes")}
    for name, rows in by_column(read_rows("phonemes.csv"), "model").items():
        assert shown[name] == [mean_and_error(scores(of_metric)) for of_metric in by_column(rows, "metric").values()]


def test_the_rows_of_a_bert_that_becomes_an_albert_are_the_measured_ones():
    measured = [dict(row, millions=f"{row['parameters']}e-6") for row in read_rows("bert_to_albert.csv")
                if not row["lines"]]
    columns = {"megabytes": ".2f", "millions": ".1f", "spearman": ".3f", "int8_spearman": ".3f", "recall@1": ".3f",
               "milliseconds": ".2f"}
    assert len(measured) == 3
    assert [row[1:] for row in table_rows("results/accuracy.md", "From BERT to ALBERT")[1:]] == [
        formatted(row, columns) for row in measured]


def test_the_rows_of_the_steps_on_a_gpu_follow_from_the_measured_values():
    measured = {(row["step"], row["program"]): row for row in read_rows("device_steps.csv")}

    def span(row, name, factor=1.0):
        lowest, highest = (f"{factor * float(row[f'{name}_{end}']):.0f}" for end in ("lowest", "highest"))
        return lowest if lowest == highest else f"{lowest} to {highest}"

    def thousands(row):
        return span(row, "tokens", 0.001) if row else ""

    shown = [row for row in table_rows("results/speed.md", "On a GPU") if row[0] != "step"]
    assert len(shown) >= 5
    for title, *cells in shown:
        task, model, rows, _, length = title.replace(", ", ",").replace("SQuAD 2.0", "squad-2.0").replace(
            ",", " ").split()
        again = "-checkpointing" if model == "albert_xxlarge" else ""
        name = f"{task}-{model}_v2-{rows}x{length}-bfloat16-step{again}-cudnn-attention"
        ours, *theirs = (measured.get((name, program)) for program in (
            "albert_tf", "Hugging Face, eager", "Hugging Face, compiled"))
        memory = f"{float(ours['memory_gb']):.1f}"
        assert cells == [thousands(ours), span(ours, "share"), memory, *map(thousands, theirs)]


def test_the_tables_of_speed_are_the_measured_values():
    measured = read_rows("speed.csv")
    for page, section in dict.fromkeys((row["page"], row["section"]) for row in measured):
        lines, shown, head = table_lines(page, section), {}, []
        for cells, below in zip(lines, [*lines[1:], [""]]):
            if below[0] == "---":
                head = cells
            elif cells[0] != "---":
                shown.update({(cells[0], column): cell for column, cell in zip(head[1:], cells[1:]) if cell})
        assert shown == {(row["row"], row["column"]): row["value"] for row in measured
                         if (row["page"], row["section"]) == (page, section)}


def test_the_losses_of_the_first_updates_are_those_that_the_release_recorded(golden):
    rows = by_column(read_rows("first_updates.csv"), "optimizer")
    for optimizer in ("lamb", "adamw"):
        ours, release = ([float(row[name]) for row in rows[optimizer]] for name in ("albert_tf", "original"))
        recorded = np.load(golden / f"training_{optimizer}.npz")["total_loss_onehot"]
        np.testing.assert_allclose(release, recorded, atol=1e-6)
        np.testing.assert_allclose(ours, release, atol=5e-5, rtol=0)
