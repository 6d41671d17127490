"""`hydra-dse diff`: what changed between two runs."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from cli.pieces import Answer, replace, small_run
from hydra_dse.errors import InputError
from hydra_dse.studies.run_differences import compare_runs


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The same experiment with 8 designs, and with 48 from another seed."""
    folder = tmp_path_factory.mktemp("runs")
    return small_run(folder / "short", trials=8, seed=3), small_run(folder / "long", trials=48)


def front(run: Path) -> set[str]:
    with (run / "pareto.csv").open() as stream:
        return {row["design"] for row in csv.DictReader(stream)}


def test_a_run_does_not_differ_from_itself(runs: tuple[Path, Path]) -> None:
    found = compare_runs(runs[0], runs[0])
    assert not found.experiment
    assert not found.versions
    assert not found.inputs
    assert found.designs[1:] == (0, 0)
    assert {item.design for item in found.front} == front(runs[0])
    assert {item.change for item in found.front} == {"kept"}


def test_gained_and_lost_designs_are_those_of_the_two_fronts(runs: tuple[Path, Path]) -> None:
    found = compare_runs(*runs)
    by_change = {
        change: {item.design for item in found.front if item.change == change} for change in ("kept", "gained", "lost")
    }
    assert by_change["kept"] == front(runs[0]) & front(runs[1])
    assert by_change["lost"] == front(runs[0]) - front(runs[1])
    assert by_change["gained"] == front(runs[1]) - front(runs[0])
    assert by_change["gained"] or by_change["lost"]
    assert ("search.trials", "8", "48") in found.experiment
    both, before, after = found.designs
    assert (both + before, both + after) == (8, 48)


def test_every_lost_design_names_what_is_better_now(runs: tuple[Path, Path]) -> None:
    found = compare_runs(*runs)
    values = {item.design: item.after for item in found.front if item.after}
    lost = [item for item in found.front if item.change == "lost" and "dominate" in item.reason]
    assert lost
    for item in lost:
        better = values[next(word for word in item.reason.split() if word in values)]
        assert better["saturation_tokens_per_s"] >= item.before["saturation_tokens_per_s"]
        assert better["ttft_mean_s"] <= item.before["ttft_mean_s"]


def test_a_gained_design_was_not_scored_before_or_was_worse(runs: tuple[Path, Path]) -> None:
    for item in compare_runs(*runs).front:
        if item.change == "gained":
            assert item.reason.startswith("not scored in the first run" if not item.before else "dominated by ")


@pytest.mark.slow
def test_another_workload_is_named_and_scores_change(runs: tuple[Path, Path], tmp_path: Path) -> None:
    other = small_run(tmp_path / "other")
    assert compare_runs(runs[0], other).inputs  # the same content at another place is another input
    folder = tmp_path / "faster"
    small_run(folder)
    workload = folder / "workload.yaml"
    replace(workload, "prompt: 400", "prompt: 800")
    from hydra_dse.config import load_experiment
    from hydra_dse.studies import sweep

    sweep(load_experiment(folder / "experiment.yaml", ["search.trials=16"]), folder / "again")
    found = compare_runs(folder / "run", folder / "again")
    assert str(workload.resolve()) in found.inputs
    kept = [item for item in found.front if item.change == "kept"]
    assert all(item.before != item.after for item in kept)


@pytest.mark.slow
def test_runs_without_a_common_objective_are_refused(runs: tuple[Path, Path], tmp_path: Path) -> None:
    folder = tmp_path / "alien"
    folder.mkdir()
    from cli.pieces import write_inputs
    from hydra_dse.config import load_experiment
    from hydra_dse.studies import sweep

    write_inputs(folder)
    replace(folder / "experiment.yaml", "[saturation_tokens_per_s, ttft_mean_s]", "[power_w]")
    sweep(load_experiment(folder / "experiment.yaml", ["search.trials=8"]), folder / "run")
    with pytest.raises(InputError, match="share no objective"):
        compare_runs(runs[0], folder / "run")


def test_the_command_prints_a_table_or_one_object(runs: tuple[Path, Path], hydra: Callable[..., Answer]) -> None:
    text = hydra("diff", *runs)
    assert text.code == 0
    assert "search.trials" in text.out
    data = json.loads(hydra("diff", *runs, "--json").out)
    assert data["objectives"] == ["saturation_tokens_per_s", "ttft_mean_s"]
    assert hydra("diff", runs[0], "no-run").code == 2
