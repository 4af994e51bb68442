"""A study's results as a page (results.md) with a chart (results.svg), and the text of --list."""

from __future__ import annotations

import json
import math
import os
import shlex
import statistics
from typing import Iterator

from albert_tf.utils.charts import Curve, Panel, write_charts
from albert_tf.utils.outputs import write_text
from albert_tf.utils.progress import count_of
from studies.finished_runs import ScriptRuns
from studies.intervals import Interval, standard_error
from studies.planning import Data, PlannedRun, plan
from studies.results import Row, compare, training_flops
from studies.sizes import variable_count
from studies.study import COLUMNS, Paper, Settings, Study, read_study, study_names


def write_report(study: Study, rows: list[Row], columns: list[str], directory: str) -> None:
    """Writes results.md and results.svg.

    Args:
      study: the study.
      rows: the rows of all configurations, also of those that have no results yet.
      columns: the measured columns.
      directory: the directory of both files.
    """
    panels = [_panel(COLUMNS[column].title, [row.values[column] for row in rows], [row.label for row in rows])
              for column in columns]
    write_charts(os.path.join(directory, "results.svg"), panels)
    write_text(os.path.join(directory, "results.md"), "\n\n".join(_page(study, rows, columns)) + "\n")


def _page(study: Study, rows: list[Row], columns: list[str]) -> list[str]:
    """The paragraphs of the page."""
    unmeasured = [COLUMNS[column].title for column in study.columns if column not in columns]
    page = [f"# {study.question}",
            f"The paper ({study.paper.source}): {study.paper.finding}",
            *([_table_of_paper(study.paper)] if study.paper.rows else []),
            f"Scale {study.scale}: {study.about}. {_settings(study)}The settings of each configuration replace these:",
            "\n".join(_settings_of_configurations(study)),
            "Each figure is a mean over seeds with its standard error, and in parentheses the number of seeds. "
            "Accuracies are in percent.",
            markdown_table(*_results(rows, columns)),
            _plateau(rows)]
    if unmeasured:
        page.append(f"Not measured, because their data are missing: {', '.join(unmeasured)}.")
    differences = _differences(study, rows, columns)
    if differences:
        page += ["Differences with 95 % intervals: over seeds (Welch, or in pairs where both measured the same "
                 "pre-trained models), or by paired bootstrap over the examples that both models answered, whichever "
                 "is wider; none for a single seed. In bold: intervals without zero.",
                 markdown_table(["difference", *(COLUMNS[column].title for column in columns)], differences)]
    if study.scale == "small":
        page.append(f"What the small scale cannot tell: {study.limits}")
    page += ["![results](results.svg)",
             f"Command: `{_command(study)}` with the flags of the data (docs/studies.md)."]
    return page


def _settings(study: Study) -> str:
    """The settings of all configurations that differ from the scale."""
    settings = {**study.settings, **study.overrides}
    if not settings:
        return ""
    return f"But with {_listed(settings)}. "


def _settings_of_configurations(study: Study) -> list[str]:
    """A line for each configuration with its own settings."""
    common = {**study.settings, **study.overrides}.keys()
    return [f"- {label}: {_listed({name: value for name, value in settings.items() if name not in common}) or '-'}"
            for label, settings in study.configurations.items()]


def _listed(settings: Settings) -> str:
    return ", ".join(f"{name} {json.dumps(value)}" for name, value in settings.items())


def _command(study: Study) -> str:
    flags = (f"--set={name}={json.dumps(value)}" for name, value in study.overrides.items())
    return shlex.join(["python", "-m", "studies", study.argument, f"--scale={study.scale}", *flags])


def markdown_table(head: list[str], rows: list[list[str]]) -> str:
    """A table in Markdown."""
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (head, ["---"] * len(head), *rows))


def _table_of_paper(paper: Paper) -> str:
    return markdown_table(["scores in the paper", *paper.columns], [[str(cell) for cell in row] for row in paper.rows])


def _results(rows: list[Row], columns: list[str]) -> tuple[list[str], list[list[str]]]:
    """The head and the rows of our results."""
    head = ["scores here", *(COLUMNS[column].title for column in columns), "masked-LM loss", "variables", "minutes"]
    ours = [[_label(row), *(_mean(row.values[column]) for column in columns), _mean(row.masked_lm_losses, digits=3),
             f"{variable_count(row.config):,}", _mean(row.minutes)] for row in rows]
    return head, ours


def _label(row: Row) -> str:
    return row.label + (" †" if row.minutes and row.is_on_plateau else "")


def _mean(values: dict[int, float], digits: int = 1) -> str:
    """"81.5 ± 0.3 (3)": mean, standard error and number of seeds."""
    if not values:
        return "-"
    error = standard_error(list(values.values()))
    shown = "" if math.isnan(error) else f" ± {error:.{digits}f}"
    return f"{statistics.mean(values.values()):.{digits}f}{shown} ({len(values)})"


def _plateau(rows: list[Row]) -> str:
    losses = sorted({f"{row.baseline.neighbour_loss:.2f}" for row in rows if row.baseline})
    if not losses:
        return "Nothing has finished yet."
    return (f"† still on the plateau of early training: neighbouring tokens explain a masked-LM loss of "
            f"{' or '.join(losses)} (docs/pretraining.md). {_share_past_plateau(rows)}")


def _share_past_plateau(rows: list[Row]) -> str:
    trained = [row for row in rows if row.minutes]
    past = [row for row in trained if not row.is_on_plateau]
    return f"{len(past)} of {len(trained)} configurations that were trained are past it."


def _differences(study: Study, rows: list[Row], columns: list[str]) -> list[list[str]]:
    """The configurations that have results, each minus its reference."""
    measured = {row.label: row for row in rows if any(row.values.values())}
    pairs = ((measured[label], measured[reference]) for label, reference in study.references.items()
             if label != reference and {label, reference} <= set(measured))
    return [[f"{row.label} − {reference.label}", *(_interval(compare(row, reference, column)) for column in columns)]
            for row, reference in pairs]


def _interval(interval: Interval | None) -> str:
    if interval is None:
        return "-"
    if math.isnan(interval.low):
        return f"{interval.difference:+.1f}"
    shown = f"{interval.difference:+.1f} ({interval.low:+.1f} to {interval.high:+.1f})"
    return f"**{shown}**" if interval.excludes_zero else shown


def _panel(title: str, values: list[dict[int, float]], labels: list[str]) -> Panel:
    """The means with their standard errors, and a dot for each seed."""
    means = [statistics.mean(of_row.values()) if of_row else math.nan for of_row in values]
    errors = [standard_error(list(of_row.values())) for of_row in values]
    seeds = [(place, value) for place, of_row in enumerate(values) for value in of_row.values()]
    return Panel(title, [Curve(list(enumerate(means)), "mean and standard error", errors),
                         Curve(seeds, "single seeds", is_joined=False)], x_labels=labels)


# --- the text of --list: the question, the paper's answer and the cost of each study ---------------------------------


def descriptions(scale: str, data: Data, finished: ScriptRuns | None) -> Iterator[str]:
    """A paragraph for each study.

    Args:
      scale: a name of SCALES.
      data: the data, whose paths need not exist.
      finished: the runs so far, for measured times; None if there are none.
    """
    for name in study_names():
        study = read_study(name, scale)
        runs = {run.directory: (run, trial.config_files[run.flags["albert_config_file"]]) for trial in plan(study, data)
                for run in trial.runs.values() if run.script == "run_pretraining"}  # some trials share a model
        costs = [training_flops(run, config) for run, config in runs.values()]
        cost = (f"{count_of(len(costs), 'trained model')} ({count_of(len(study.configurations), 'configuration')}, "
                f"seeds {study.seeds}), "
                f"{sum(costs):.1e} operations in all and {max(costs):.1e} at most for one")
        if study.training_flops_per_second:
            hours, minutes = (value / study.training_flops_per_second for value in (sum(costs) / 3600, max(costs) / 60))
            cost += f": about {hours:.1f} hours, {minutes:.0f} minutes at most for one, and its tasks besides"
        yield (f"{name}: {study.question}\n    paper: {study.paper.finding} ({study.paper.source})\n    cost: {cost}"
               + _measured([run for run, _ in runs.values()], finished))


def _measured(pretraining: list[PlannedRun], finished: ScriptRuns | None) -> str:
    seconds = [finished.seconds(run.script, **run.flags) for run in pretraining] if finished else []
    measured = [value for value in seconds if value is not None]
    if not measured:
        return ""
    return (f"\n    measured: {len(measured)} of {len(pretraining)} models in {sum(measured) / 3600:.1f} hours, "
            f"{max(measured) / 60:.0f} minutes at most")
