"""The options of Beam pipelines, which the user writes as name=value,name=value."""

import pytest

pytest.importorskip("apache_beam")

from apache_beam.options.pipeline_options import DirectOptions, FlinkRunnerOptions, StandardOptions

from albert_tf.beam.creation import pipeline_options


def test_dashes_and_blanks_around_names_do_not_matter():
    options = pipeline_options(" --runner = FlinkRunner , flink_master = host:8081,", num_workers=2)
    assert options.view_as(StandardOptions).runner == "FlinkRunner"
    assert options.view_as(FlinkRunnerOptions).flink_master == "host:8081"


def test_the_local_runner_is_the_default_and_has_the_workers_of_the_flag_unless_an_option_is_set():
    for text, expected in (("", (2, "multi_processing")), ("direct_num_workers=7", (7, "multi_processing"))):
        options = pipeline_options(text, num_workers=2)
        assert options.view_as(StandardOptions).runner.endswith("FnApiRunner")
        direct = options.view_as(DirectOptions)
        assert (direct.direct_num_workers, direct.direct_running_mode) == expected


@pytest.mark.parametrize("text, message", [
    ("runner=FlinkRunner,flink_mastr=host:8081", "'flink_mastr'"), ("Runner=FlinkRunner", "'Runner'"), ("=7", "''"),
    ("direct_num_workers=abc", "--direct_num_workers: .*'abc'"),
    ("direct_running_mode=threads", "--direct_running_mode: .*'threads'"), ("runner=NoRunner", "NoRunner"),
    ("runner=no_module.Runner", "'no_module'"),
    ("direct_running_mode=multi_threading", "multi_threading loses elements")])
def test_an_option_that_has_no_effect_is_refused_in_one_line(capsys, text, message):
    with pytest.raises(ValueError, match=f"^--beam_pipeline_options: .*{message}"):
        pipeline_options(text, num_workers=2)
    assert not capsys.readouterr().err
