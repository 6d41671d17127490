"""`variance`, `dynamic` and `uncertainty` from Python, and runs that are read again only when they have changed."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from hydra_dse import dynamic, load_experiment, open_run, sweep, uncertainty, variance
from hydra_dse.api import Effects, TaskMaps
from hydra_dse.api import reading as module
from hydra_dse.config import load_workload
from hydra_dse.config.finder import find
from hydra_dse.design.experiment import DynamicSettings
from hydra_dse.errors import InputError
from hydra_dse.studies.dynamic import DynamicResult
from hydra_dse.studies.dynamic_loads import Load
from hydra_dse.studies.dynamic_simulation import METRICS
from hydra_dse.studies.dynamic_tables import COSTS, PAYS, Gain, MapRow
from hydra_dse.studies.variance import EffectRow

SMALL = ["space=small-9", "rate=1 req/s", "search.trials=8", "search.population=4"]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory):
    return sweep("quickstart", tmp_path_factory.mktemp("decisions") / "run", SMALL)


@pytest.mark.slow
def test_a_run_is_read_once_until_one_of_its_files_is_another(run, monkeypatch: pytest.MonkeyPatch) -> None:
    read = []
    from hydra_dse.report import run as report_run

    real = report_run.read_run
    monkeypatch.setattr(report_run, "read_run", lambda path: read.append(path) or real(path))
    module._read.cache_clear()
    assert run.front == open_run(run.path).front
    assert run.design(run.recommended[:6]).identity == run.recommended
    assert len(read) == 1
    table = run.path / "designs.parquet"
    table.write_bytes(table.read_bytes())
    assert (run.front, len(read)) == (open_run(run.path).front, 2)


@pytest.mark.slow
def test_an_input_that_changes_after_a_run_was_read_is_told_as_ever(tmp_path: Path) -> None:
    model = tmp_path / "mine.json"
    model.write_bytes(find("models", "jamba-tiny").read_bytes())
    mine = sweep("quickstart", tmp_path / "run", [*SMALL, f"model={model}"])
    assert mine.front
    model.write_text(model.read_text() + "\n\n")
    with pytest.raises(InputError, match="has changed since the experiment was stored"):
        mine.front  # noqa: B018


def _effect(factor: str, total: float, model: str = "a") -> EffectRow:
    return EffectRow(model, "chat", "saturation", factor, 0.1, 0.0, 0.2, total, total - 0.1, total + 0.1, 8, 0, 0.5)


@pytest.mark.slow
def test_effects_are_a_row_and_a_bar_each() -> None:
    found = Effects("two", (_effect("die mix", 0.7), _effect("batching", 0.4), _effect("die mix", 0.6, "b")))
    frame = found.frame()
    assert list(frame["factor"]) == ["die mix", "batching", "die mix"]
    assert (frame["total_low"] < frame["total"]).all()
    [axes] = found.figure().axes
    assert sorted(bar.get_width() for bar in axes.patches) == pytest.approx([0.4, 0.6, 0.7])
    with pytest.raises(InputError, match="did you mean 'saturation'"):
        found.figure("saturatio")


def _maps(path: Path) -> TaskMaps:
    settings = DynamicSettings(("static", "fcfs"), (10.0, 50.0), (0.8,))
    workload = load_workload("shifting-mix")
    loads = [Load("steady mean", workload), *(Load(f"cycle {at:g} s", workload, at, (0.0,)) for at in (10.0, 50.0))]
    rows = tuple(
        MapRow(0.8, 2.0, name, load, dict.fromkeys(METRICS, (0.5, 0.4, 0.6)), (3.0,) if load.cycle_s else ())
        for load in loads
        for name in settings.task_maps
    )
    verdicts = (COSTS, PAYS)
    gains = tuple(
        Gain(0.8, "fcfs", load, (0.1, 0.0, 0.2), (1.0, 0.9, 1.1), verdict)
        for load, verdict in zip(loads[1:], verdicts, strict=True)
    )
    return TaskMaps(path, DynamicResult(path, "d", {}, 2.5, settings, rows, gains, 0))


@pytest.mark.slow
def test_task_maps_are_rows_with_units_and_break_even_where_they_begin_to_pay(tmp_path: Path) -> None:
    maps = _maps(tmp_path)
    frame = maps.frame()
    assert len(frame) == 3 * 2 * len(METRICS)
    assert dict(zip(frame["metric"], frame["unit"], strict=True))["ttft_p99_s"] == "s"
    assert frame.loc[frame["load"] == "steady mean", "cycle_s"].isna().all()
    assert set(maps.recovery()["recovery_s"]) == {3.0}
    [ends] = maps.breakeven().itertuples(index=False)
    assert (ends.task_map, ends.pays_from_cycle_s, ends.not_at_cycle_s) == ("fcfs", 50.0, 10.0)
    [axes] = maps.figure().axes
    assert [text.get_text() for text in axes.figure.findobj(match=lambda item: hasattr(item, "get_text"))].count("fcfs")
    with pytest.raises(InputError, match="there are"):
        maps.figure(share=0.5)
    with pytest.raises(InputError, match="did you mean 'ttft_p99_s'"):
        maps.figure("ttft_p98_s")


@pytest.mark.slow
def test_the_odds_of_a_front_carry_units_and_go_on_with_more_draws(run) -> None:
    few = uncertainty(run, draws=4)
    more = uncertainty(run.path, draws=6)
    table = more.frame()
    assert (few.result.draws, more.result.draws) == (4, 6)
    assert set(table.loc[table["on_front"], "design"]) == set(run.front)
    assert table["p_in_front"].between(0, 1).all()
    assert table.attrs["units"]["ttft_mean_s"] == "s"
    assert len(more.comparisons()) == len(more.result.compared)
    assert len(more.figure().axes[0].patches) == len(table)


@pytest.mark.slow
def test_the_quick_variant_of_the_task_maps_compares_all_of_them(tmp_path: Path) -> None:
    maps = dynamic("dynamic-task-maps", tmp_path / "run", quick=True)
    frame = maps.frame()
    assert list(dict.fromkeys(frame["task_map"])) == ["static", "fcfs", "stealing", "elastic"]
    attained = frame[frame["metric"] == "slo_attainment"]["value"]
    assert attained.between(0, 1).all() and math.isfinite(float(np.sum(attained)))
    assert set(maps.gains()["task_map"]) == {"fcfs", "stealing", "elastic"}
    assert set(maps.recovery()["phase"]) == {1, 2}


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (lambda at: variance("quickstart"), "has no section 'variance'"),
        (lambda at: dynamic("quickstart", at / "out"), "needs a section 'dynamic'"),
        (lambda at: dynamic(load_experiment("quickstart"), at / "out", quick=True), "this one is an object"),
        (lambda at: dynamic("quickstart", at / "out", quick=True), "has no section 'quick'"),
        (lambda at: uncertainty(at / "nowhere"), "no such run directory"),
        (lambda at: uncertainty(at, draws=0), "expected draws"),
        (lambda at: uncertainty(at, memory=1.5), "0 < memory ≤ 1"),
    ],
)
def test_mistakes_are_told_in_one_line(call, told: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=told):
        call(tmp_path)
