"""Tables of robustness from cells and scores made by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from hydra_dse.config import load_workload
from hydra_dse.design.experiment import Scenario
from hydra_dse.search.scores import ScoreTable
from hydra_dse.studies.robust_tables import Cell, Selected, cells_of, summaries, worst_of_each
from hydra_dse.studies.role_search import EVERY
from hydra_dse.studies.roles import ALL, LOAD, OWN, WITHOUT, Role

CHAT = load_workload("hydra-chat")
SPEED, WAIT = "saturation_tokens_per_s", "ttft_mean_s"


def scenario(name: str) -> Scenario:
    return Scenario(name, name, "chat", CHAT)


def cell(kind: str, on: str, share: float, seen: bool, role: str = "", metric: str = SPEED) -> Cell:
    return Cell(metric, role or kind, kind, "d", scenario(on), seen, metric, 0.5, 1.0, 1.0, share)


def test_generalists_are_judged_on_what_they_see_and_specialists_on_what_they_do_not() -> None:
    cells = [
        *(cell(ALL, on, share, True) for on, share in (("a", 0.9), ("b", 0.6), ("c", 0.9))),
        cell(OWN, "a", 1.0, True, "own:a"),
        cell(OWN, "b", 0.5, False, "own:a"),
        cell(OWN, "a", 0.2, False, "own:b"),
        cell(WITHOUT, "c", 0.7, False),
        cell(WITHOUT, "a", 0.1, True),
        cell(LOAD, "c", 0.0, False),
    ]
    found = {row.kind: row for row in summaries(cells, "retuned")}
    assert found.keys() == {ALL, OWN, WITHOUT}
    assert [(found[kind].cells, found[kind].mean, found[kind].worst) for kind in found] == [
        (3, pytest.approx(0.8), 0.6),
        (2, pytest.approx(0.35), 0.2),
        (1, pytest.approx(0.7), 0.7),
    ]
    assert [found[kind].worst_at for kind in found] == ["all on b", "own:b on a", "without on c"]
    assert {row.policy for row in found.values()} == {"retuned"}


def test_metrics_are_summarised_apart() -> None:
    rows = summaries([cell(ALL, "a", 0.9, True), cell(ALL, "a", 0.3, True, metric=WAIT)])
    assert [(row.metric, row.worst) for row in rows] == [(SPEED, 0.9), (WAIT, 0.3)]


def test_a_design_chosen_for_all_metrics_has_the_worst_of_its_shares_in_each_scenario() -> None:
    low, high, other = cell(ALL, "a", 0.3, True), cell(ALL, "a", 0.8, True), cell(ALL, "b", 0.9, True)
    assert worst_of_each([high, low, other]) == [low, other]
    assert worst_of_each([low, high, other]) == [low, other]


def test_a_cell_is_the_share_of_the_own_best_that_is_kept_whichever_way_is_better() -> None:
    def table(speed: float, wait: float, load: float) -> ScoreTable:
        metrics = {SPEED: np.array([1.0, speed]), WAIT: np.array([1.0, wait]), "load": np.array([0.0, load])}
        return ScoreTable(("other", "d"), metrics, ((), ()))

    tables = {"a": table(50.0, 0.4, 0.6), "b": table(80.0, math.nan, 1.3)}
    best = {("a", SPEED): 100.0, ("a", WAIT): 0.1, ("b", SPEED): 80.0, ("b", WAIT): 0.2}
    chosen = Selected(EVERY, Role("own:a", OWN, ("a",)), "d", {})
    found = cells_of(chosen, tables, 1, [scenario("a"), scenario("b")], [SPEED, WAIT], best)
    assert [(one.shown, one.scenario.name, one.seen, one.load) for one in found] == [
        (SPEED, "a", True, 0.6),
        (SPEED, "b", False, 1.3),
        (WAIT, "a", True, 0.6),
        (WAIT, "b", False, 1.3),
    ]
    # Half of the speed, all of it, four times the wait, and none that is finite.
    assert [one.share for one in found] == pytest.approx([0.5, 1.0, 0.25, 0.0])
    assert [one.own_best for one in found] == [100.0, 80.0, 0.1, 0.2]
    speed_only = Selected(SPEED, Role("own:a", OWN, ("a",)), "d", {})
    assert cells_of(speed_only, tables, 1, [scenario("a")], [SPEED, WAIT], best)[0].metric == SPEED
    assert len(cells_of(speed_only, tables, 1, [scenario("a")], [SPEED, WAIT], best)) == 1


def test_what_has_no_own_best_keeps_nothing_of_it() -> None:
    tables = {"a": ScoreTable(("d",), {SPEED: np.array([5.0]), "load": np.array([0.1])}, ((),))}
    [found] = cells_of(Selected(SPEED, Role("all", ALL, ("a",)), "d", {}), tables, 0, [scenario("a")], [SPEED], {})
    assert math.isnan(found.own_best)
    assert found.share == 0.0
