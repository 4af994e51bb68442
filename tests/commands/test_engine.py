"""--engine and --beam_pipeline_options."""

import importlib.util
import json

import pytest
from in_process import loaded

TEXT = "\n\n".join(f"The door number {i} was open.\nA cat of {i + 1} years looked out.\nIt rained." for i in range(6))


@pytest.fixture
def create(golden, tmp_path):
    """create(**flags) runs create_pretraining_data.py on a small text and returns its exit status."""
    (tmp_path / "text.txt").write_text(TEXT)
    with loaded("create_pretraining_data") as run:
        yield lambda **flags: run(**dict(dict(
            input_file=tmp_path / "text.txt", output_file=tmp_path / "out.tfrecord", max_seq_length=32, dupe_factor=2,
            num_workers=1, spm_model_file=golden / "tiny_spm/tiny.model"), **flags))


def test_without_apache_beam_one_line_says_how_to_get_it(create, capsys, monkeypatch):
    find_spec = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "apache_beam" else find_spec(name))
    assert create(engine="beam") == 1
    assert capsys.readouterr().err.splitlines()[-1] == (
        "create_pretraining_data: error: --engine=beam needs the package apache-beam, which is not "
        "installed: pip install apache-beam 'proto-plus<1.29', or in a clone of albert_tf pip install '.[beam]'")


def test_both_engines_write_and_report_the_same(create, caplog, tmp_path):
    pytest.importorskip("apache_beam")
    written, reports = {}, {}
    caplog.set_level("INFO", "absl")
    for engine in ("local", "beam"):
        assert create(engine=engine, num_shards=2, output_file=tmp_path / engine / "x.tfrecord") == 0
        written[engine] = {path.name: path.read_bytes() for path in (tmp_path / engine).iterdir()}
        manifest = json.loads(written[engine].pop("x.manifest.json"))
        assert manifest["made_from"].pop("flags")["engine"] == engine
        written[engine]["manifest"] = manifest
        reports[engine], = [message for message in caplog.messages if "documents, " in message]
        caplog.clear()
    assert len(written["local"]) == 3 and written["beam"] == written["local"]
    assert reports["beam"] == reports["local"]
