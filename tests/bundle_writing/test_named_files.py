"""Files that a command names mean the same from any folder, and all of them are recorded."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hydra_dse.bundle.writing import sha256
from hydra_dse.config.overrides import parse_override
from hydra_dse.errors import InputError
from hydra_dse.studies.bundles import simulation_of
from hydra_dse.studies.design_simulation import DesignSimulation
from hydra_dse.studies.named_files import anywhere, files_read, override_anywhere


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to work in, with a trace, a workload of it, and the configuration of a model."""
    (tmp_path / "my trace.csv").write_text("arrival_s,prompt_tokens,output_tokens\n0,1,1\n")
    (tmp_path / "w.yaml").write_text("model: hf/\narrivals: {trace: my trace.csv}\n")
    (tmp_path / "hf").mkdir()
    (tmp_path / "hf" / "config.json").write_text("{}")
    (tmp_path / "h100").mkdir()
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_paths_become_absolute_and_bundled_names_stay(here: Path) -> None:
    assert anywhere("w.yaml") == str(here / "w.yaml") and anywhere("runs/q:abc") == f"{here}/runs/q:abc"
    assert anywhere("hf") == anywhere("./hf") == str(here / "hf")
    # A folder that has the name of what is bundled is not what the name means.
    assert anywhere("h100") == "h100" and anywhere("nemotron-h-8b") == "nemotron-h-8b"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("workload.arrivals={trace: my trace.csv, keep_start: true}", {"trace": "my trace.csv", "keep_start": True}),
        ("workload.arrivals.trace=my trace.csv", "my trace.csv"),
        ("workload.model=hf/", "hf/"),
    ],
)
def test_files_in_an_override_are_named_from_any_folder(here: Path, text: str, value: object) -> None:
    def absolute(leaf: object) -> object:
        if isinstance(leaf, dict):
            return {key: absolute(inner) for key, inner in leaf.items()}
        return str((here / leaf).resolve()) if isinstance(leaf, str) else leaf

    written = override_anywhere(text)
    assert parse_override(written).value == absolute(value)
    assert override_anywhere(written) == written


@pytest.mark.parametrize("text", ["workload.arrivals.rate=3/s", "design.policy.max_batch=8", "workload.model=h100"])
def test_an_override_without_files_stays_as_it_was_written(here: Path, text: str) -> None:
    assert override_anywhere(text) == text


def test_every_file_behind_a_command_is_recorded(here: Path) -> None:
    trace, config = here / "my trace.csv", here / "hf" / "config.json"
    assert files_read(["h100", "w.yaml", None], []) == [config, trace, here / "w.yaml"]
    assert files_read([None], ["workload.arrivals.trace=my trace.csv", "workload.model=hf/"]) == [config, trace]


def test_command_and_settings_of_a_simulation_name_files_from_any_folder(here: Path) -> None:
    run = DesignSimulation("h100", "w.yaml", overrides=("workload.arrivals.trace=my trace.csv",))
    told = f"workload.arrivals.trace={json.dumps(str(here / 'my trace.csv'))}"
    assert run.command()[-2:] == ("--set", told) and run.settings()["overrides"] == [told]
    assert str(here / "w.yaml") in run.command() and run.command()[1] == "h100"


def test_a_bundle_in_a_run_directory_that_moved_is_found_again(tmp_path: Path) -> None:
    bundle = tmp_path / "new" / "bundles" / "abc"
    bundle.mkdir(parents=True)
    experiment = tmp_path / "new" / "experiment.yaml"
    experiment.write_text("name: x\n")
    recorded = [{"file": "/gone/run/experiment.yaml", "sha256": sha256(experiment)}]
    block = {"run": {"design": "/gone/run:abc", "workload": None}, "inputs": recorded}
    assert simulation_of(block, str(bundle)).design == f"{tmp_path / 'new'}:abc"
    experiment.write_text("name: y\n")
    with pytest.raises(InputError, match="changed"):
        simulation_of(block, str(bundle))


@pytest.mark.parametrize("inputs", [True, "abc", [1], {"a": 1}, [{"sha256": "0"}]])
def test_inputs_that_are_no_list_of_files_are_refused(tmp_path: Path, inputs: object) -> None:
    with pytest.raises(InputError, match="inputs"):
        simulation_of({"run": {"design": "h100", "workload": "azure-code"}, "inputs": inputs}, str(tmp_path))
