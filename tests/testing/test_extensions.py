"""The examples of `docs/how-to/extend.md` keep to their contracts, and work where our own parts do."""

from __future__ import annotations

import importlib
import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from hydra_dse import estimate, extensions, load_design, load_workload, simulate, sweep
from hydra_dse.cli.app import app
from hydra_dse.design.evaluator import EvaluationOptions
from hydra_dse.errors import InputError
from hydra_dse.results import metric
from hydra_dse.studies.simulating import SimulationOfFile
from hydra_dse.testing import registered

PAGE = Path(__file__).resolve().parents[2] / "docs/how-to/extend.md"
PARTS = ("simulator", "metric", "die", "placement", "objective", "arrivals")


@pytest.fixture
def examples(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The files of the page in the working directory, from which their modules are imported."""
    text = PAGE.read_text(encoding="utf-8")
    for name, code in re.findall(r"^```\{code-block\} \w+\n:caption: (\S+)\n\n(.*?)^```", text, re.M | re.S):
        (tmp_path / name).write_text(code, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        if name.startswith(("my_", "test_my_")):
            del sys.modules[name]


def mine(module: str, name: str) -> object:
    return getattr(importlib.import_module(module), name)


@pytest.mark.slow
@pytest.mark.parametrize("part", PARTS)
def test_an_example_keeps_to_its_contract(part: str, examples: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    if part == "metric":
        words = next(line for line in PAGE.read_text().splitlines() if "--bundle bundle" in line).split()[1:]
        assert CliRunner().invoke(app, words).exit_code == 0
    module = importlib.import_module(f"test_my_{part}")
    [contract] = [item for name, item in vars(module).items() if name.startswith("Test")]
    tests = [name for name in dir(contract) if name.startswith("test_")]
    assert len(tests) >= 4
    for name in tests:
        test = getattr(contract(), name)
        test(*[tmp_path_factory.mktemp("contract") for _ in inspect.signature(test).parameters])


def test_an_example_has_at_most_about_twenty_lines(examples: Path) -> None:
    for part in ("metric", "placement", "objective"):
        assert len((examples / f"my_{part}.py").read_text().splitlines()) <= 20


def test_an_added_process_is_served_like_a_gamma_process_of_its_variation(examples: Path) -> None:
    with registered(extensions.ARRIVALS, "erlang", mine("my_arrivals", "erlang")):
        added = load_workload("azure-conversation", ["arrivals={process: erlang, rate: 1/s, options: {stages: 4}}"])
        own = load_workload("azure-conversation", ["arrivals={process: gamma, rate: 1/s, cv: 0.5}"])
        assert estimate("h100", added)[0] == estimate("h100", own)[0]
        with pytest.raises(InputError, match="refuses its options: 'stages'"):
            load_workload("azure-conversation", ["arrivals={process: erlang, rate: 1/s}"])
    with pytest.raises(InputError, match="'erlang' is not accepted"):
        load_workload("azure-conversation", ["arrivals={process: erlang, rate: 1/s}"])


def test_an_added_simulator_is_found_by_name(examples: Path) -> None:
    with registered(extensions.SIMULATORS, "singly", mine("my_simulator", "OneAtATime")()):
        [found] = simulate("h100", "azure-conversation", ["workload.arrivals.rate=0.2/s"], simulator="singly")
    # One token takes the time to stream 8.1e9 bf16 weights from 3.35 TB/s of HBM.
    assert found.metrics["tpot_mean_s"] == pytest.approx(2 * 8.1e9 / 3.35e12, rel=0.03)


def test_an_added_placement_can_be_named_in_a_design(examples: Path) -> None:
    with registered(extensions.PLACEMENTS, "busiest", mine("my_placement", "busiest_inside")):
        design = load_design("hydra-24-nemotron-chat", ["placement.algorithm=busiest"])
        [found] = estimate(design, "azure-conversation", ["workload.arrivals.rate=1/s"])
        [own] = estimate("hydra-24-nemotron-chat", "azure-conversation", ["workload.arrivals.rate=1/s"])
    assert found.feasible
    assert found.metrics["noi_utilization_max"] != own.metrics["noi_utilization_max"]
    with pytest.raises(InputError, match="'busiest' is not accepted"):
        load_design("hydra-24-nemotron-chat", ["placement.algorithm=busiest"])


@pytest.mark.slow
def test_an_added_objective_is_searched_and_simulated(examples: Path) -> None:
    item = mine("my_objective", "PER_DOLLAR")
    name = "saturation_tokens_per_s_per_usd"
    changes = ["space=small-9", "rate=1/s", "search.trials=12", f"objectives=[{name}, ttft_mean_s]"]
    with registered(extensions.OBJECTIVES, name, item):
        run = sweep("quickstart", "run", changes)
        designs = run.frame()
        expected = designs["saturation_tokens_per_s"] / designs["unit_cost_usd"]
        assert designs[name].to_numpy() == pytest.approx(expected.to_numpy(), nan_ok=True)
        assert designs.loc[designs["feasible"], name].max() == designs.loc[designs["front"], name].max()
        options = EvaluationOptions(requests=40, replications=2)
        least = designs.sort_values("max_batch", kind="stable").iloc[0]["design"]
        point = dict(run.design(least).parameters)
        found = SimulationOfFile(str(examples / "run/experiment.yaml")).evaluate(point, options, 0)
        low, high = found.intervals[name]
        assert low <= found.metrics[name] <= high
        assert metric(name).label == "per dollar"
    with pytest.raises(InputError, match=f"unknown metric '{name}'"):
        metric(name)
