"""The tables of the pages follow from the measured values in docs/measured."""

import collections
import csv
import re
import statistics

import pytest
from script_session import REPOSITORY

from studies.intervals import standard_error

DOCS = REPOSITORY / "docs"


def read_rows(name):
    with open(DOCS / "measured" / name, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def table_lines(page, heading):
    """The cells of each line of a section's tables; the line below a head begins with "---"."""
    text = (DOCS / page).read_text("utf-8")
    found = re.search(rf"^(#+) {re.escape(heading)}$", text, re.MULTILINE)
    section = re.split(rf"^#{{2,{max(2, len(found[1]))}}} ", text[found.end():], flags=re.MULTILINE)[0]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in section.splitlines() if line[:1] == "|"]


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


def row_of(name):
    """The cells of the row of docs/accuracy.md that begins with a name, without that."""
    row, = (line for line in (DOCS / "accuracy.md").read_text("utf-8").splitlines() if line.startswith(f"| {name}"))
    return row.strip("| ").split(" | ")[1:]


def test_the_rows_beside_hugging_face_follow_from_the_scores_of_the_seeds():
    measured = {(row["task"], row["program"]): [float(row[name]) for name in ("lowest", "median", "highest")]
                for row in read_rows("fine_tuning_beside_hugging_face.csv")}
    shown = {row[0]: row[1:4] for row in table_rows("accuracy.md", "Fine-tuning beside Hugging Face")}
    for task in {task for task, _ in measured}:
        pair, digits = [measured[task, name] for name in ("albert_tf", "Hugging Face")], 1 if "SQuAD" in task else 3
        assert shown[task] == [*(median_and_range(each, digits) for each in pair), difference_of_medians(*pair, digits)]


@pytest.mark.parametrize("trained, name", [
    ("all", "all weights |"), ("adapters", "adapters and head |"), ("head", "head |")])
def test_the_rows_of_a_part_of_the_weights_follow_from_the_scores_of_the_seeds(trained, name):
    measured = [scores(read_rows("trainable_weights.csv"), task=task, trained=trained) for task in ("sst-2", "sts-b")]
    assert row_of(name)[1:] == list(map(median_and_range, measured)) and set(map(len, measured)) == {5}


def test_every_interval_of_the_verdicts_is_one_of_the_differences():
    verdicts = (DOCS / "studies.md").read_text("utf-8").partition("## Verdicts")[2].partition("\n## ")[0]
    shown = re.findall(r"([+-][\d.]+) to ([+-][\d.]+)", verdicts)
    measured = {(float(row["low"]), float(row["high"])) for row in read_rows("study_differences.csv")}
    assert len(shown) > 12 and {(float(low), float(high)) for low, high in shown} <= measured


def test_the_table_of_sizes_and_precisions_follows_from_the_measured_values():
    bits = dict(float32=32, int8=8, binary=1)
    measured = [[row["dims"], row["precision"], f"{int(row['dims']) * bits[row['precision']] // 8:,}",
                 f"{float(row['recall@1']):.3f}", f"{float(row['recall@10']):.3f}", f"{float(row['spearman']):.4f}"]
                for row in read_rows("retrieval.csv") if row["dims"]]
    shown = [row for row in table_rows("accuracy.md", "Sentence vectors") if row[0].isdecimal()]
    assert len(shown) > 5 and all(row in measured for row in shown)


def over_seeds(rows):
    """The cells of a row of docs/faster.md: score with its standard error, and times in percent."""
    return [mean_score(rows), *(times_in_percent(rows, name) for name in ("time_batch_1", "time_batch_32"))]


def mean_score(rows):
    return mean_and_error([float(row["score"]) for row in rows])


def mean_and_error(values):
    """The mean of the values with its standard error, if there are several."""
    error = f" ({standard_error(values):.3f})" if len(values) > 1 else ""
    return f"{statistics.mean(values):.3f}{error}"


def times_in_percent(rows, column):
    times = [round(100 * float(row[column])) for row in rows]
    return f"{min(times)} to {max(times)}" if min(times) < max(times) else str(times[0])


def of_program(rows, column):
    """The rows of each program, in the order of the file."""
    programs = collections.defaultdict(list)
    for row in rows:
        programs[row[column]].append(row)
    return programs


def test_the_ways_to_a_faster_model_follow_from_the_scores_and_times_of_the_seeds():
    ways = of_program([row for row in read_rows("faster.csv") if row["steps"] == "600"], "way")
    assert table_rows("faster.md", "The ways side by side")[1:] == [
        [name, *over_seeds(rows), rows[0]["megabytes"]] for name, rows in ways.items()]


def test_the_rows_of_int8_follow_from_the_scores_of_the_seeds():
    tasks, shown = of_program(read_rows("int8_tasks.csv"), "task"), table_rows("faster.md", "int8")[1:]
    assert len(tasks) > 4
    for (name, *cells), (task, rows) in zip(shown, tasks.items()):
        scores = {export: [float(row["score"]) for row in own] for export, own in of_program(rows, "export").items()}
        digits, seeds, before = 1 if task.startswith("squad") else 3, len(scores["float32"]), scores["float32"]
        assert name.endswith(f"; {seeds}") and cells[0] == f"{statistics.mean(before):.{digits}f}"
        for cell, export in zip(cells[1:], ("ONNX, int8", "ONNX, int8 but ffn_.*/output", "TensorFlow Lite, int8")):
            differences = [after - score for after, score in zip(scores.get(export, []), before)]
            error = f" ({standard_error(differences):.{digits}f})" if len(differences) > 1 else ""
            assert cell == (f"{statistics.mean(differences):+.{digits}f}{error}" if differences else "")


def test_the_rows_of_int8_by_depth_follow_from_the_measured_values():
    by_layers = of_program(read_rows("int8_depth.csv"), "layers")
    shown = [row for row in table_rows("faster.md", "int8") if row[0].isdecimal()]
    assert len(shown) == 3
    for layers, *cells in shown:
        (error, same), others = ([f"{float(row[name]):.3f}" for name in ("error_of_vectors", "same_piece")]
                                 for row in by_layers[layers])
        assert cells == [error, same, ", ".join(others)]
    deep = [float(row["same_piece"]) for row in read_rows("int8_depth.csv")
            if row["precision"] == "int8" and int(row["layers"]) >= 18]
    assert max(deep) < 0.8  # "From 18 layers on"


def test_the_rows_of_the_shipped_model_follow_from_the_scores_of_the_seeds():
    measured = read_rows("albert_tiny_en.csv")
    shown = [row[1:4] for row in table_rows("accuracy.md", "albert_tiny_en")
             if re.match("SST-2|STS-B|the same|RTE", row[0])]
    expected = []
    for task, metric in dict.fromkeys((row["task"], row["metric"]) for row in measured):
        pair = [scores(measured, task=task, metric=metric, weights=weights) for weights in ("pre-trained", "random")]
        expected.append([*map(median_and_range, pair), difference_of_medians(*pair)])
    assert shown == expected


def test_the_rows_of_sizes_and_settings_of_a_bert_that_becomes_an_albert_are_the_measured_ones():
    all_rows = [row for row in read_rows("bert_to_albert.csv") if "rank" not in row["configuration"]]
    by_default = [row for row in all_rows if (row["lines"], row["learning_rate"], row["replaced_words"]) in (
        ("10000", "0.0015", "0.3"), ("", "", ""))]
    settings, measured = [row for row in all_rows if row not in by_default], by_default
    rows = table_rows("sentence_vectors.md", "From BERT to ALBERT")
    first = next(place for place, row in enumerate(rows) if row[:2] == ["model, lines", "corrected"])
    of_settings = [
        [f"{row['configuration']}, {int(row['lines']):,}", row["bias_correction"], f"{float(row['learning_rate']):g}",
         f"{float(row['replaced_words']):g}", *(f"{float(row[name]):.3f}" for name in ("int8_spearman", "recall@1"))]
        for row in settings]
    assert len(rows[first + 1:]) >= 6 and all(row in of_settings for row in rows[first + 1:])
    shown = rows[1:first]
    columns = {"megabytes": ".2f", "parameters": ".1f", "start_spearman": ".3f", "int8_spearman": ".3f",
               "recall@1": ".3f", "milliseconds": ".2f"}
    assert len(shown) == len(measured) >= 5
    for (name, *cells), row in zip(shown, measured):
        values = dict(row, parameters=int(row["parameters"]) / 1e6)
        assert name.split(",")[0] == {"teacher": "all-MiniLM-L6-v2"}.get(row["configuration"], row["configuration"])
        assert cells == [format(float(values[column]), digits) if values[column] else ""
                         for column, digits in columns.items()]


def test_the_card_has_the_measured_scores_of_the_first_layers():
    card = (REPOSITORY / "albert_tf/models/albert_minilm_en/README.md").read_text("utf-8")
    for row in read_rows("distillation_depths.csv"):
        scores = (", ".join(f"{float(row[f'{name}_{when}']):.3f}" for name in ("spearman", "recall@1"))
                  for when in ("before", "after"))
        assert f"| {row['layers']} | {' | '.join(scores)} |" in card


def test_the_rows_of_the_steps_on_a_gpu_follow_from_the_measured_values():
    measured = {(row["step"], row["program"]): row for row in read_rows("device_steps.csv")}

    def span(row, name, factor=1.0):
        lowest, highest = (f"{factor * float(row[f'{name}_{end}']):.0f}" for end in ("lowest", "highest"))
        return lowest if lowest == highest else f"{lowest} to {highest}"

    def thousands(row):
        return span(row, "tokens", 0.001) if row else ""

    shown = [row for row in table_rows("devices.md", "Measured on a GPU") if row[0] != "step"]
    assert len(shown) >= 7
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
