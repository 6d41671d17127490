"""Runs that go on until their intervals are narrow."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from placed_pieces import placed

from hydra_dse.config import load_calibration, load_model, load_workload
from hydra_dse.design.evaluator import EvaluationOptions
from hydra_dse.errors import InputError
from hydra_dse.results import Evaluation, Violation
from hydra_dse.workload import poisson
from simulators.serving import ServingSimulator
from simulators.serving.target import half_widths, next_replications, target_note

OPTIONS = EvaluationOptions(requests=60, replications=2, saturate=False, target_ci=0.1, target_metrics=("ttft_mean_s",))


def found(half_width: float) -> Evaluation:
    return Evaluation("simulated", {"ttft_mean_s": 2.0}, {"ttft_mean_s": (2.0 - 2 * half_width, 2.0 + 2 * half_width)})


def test_a_half_width_is_relative_to_the_value() -> None:
    assert half_widths(found(0.25), ["ttft_mean_s"]) == {"ttft_mean_s": pytest.approx(0.25)}


def test_replications_grow_with_the_square_of_what_is_missing() -> None:
    assert next_replications(found(0.2), OPTIONS) == math.ceil(2 * 1.1 * 4)
    assert next_replications(found(0.101), OPTIONS) == 3
    assert next_replications(found(3.0), OPTIONS) == 16
    assert next_replications(found(0.1 - 1e-12), OPTIONS) is None


def test_a_metric_without_an_interval_asks_for_the_most() -> None:
    assert next_replications(Evaluation("simulated", {"ttft_mean_s": 2.0}), OPTIONS) == 16


def test_no_target_and_no_feasible_design_ask_for_nothing() -> None:
    assert next_replications(found(3.0), replace(OPTIONS, target_ci=None)) is None
    broken = Evaluation("simulated", {}, violations=(Violation("area", 2.0, 1.0, "mm2"),))
    assert next_replications(broken, OPTIONS) is None


def test_the_limit_of_requests_ends_the_run_with_a_note() -> None:
    limited = replace(OPTIONS, most_requests=300)
    assert next_replications(found(0.2), limited) == 5
    assert next_replications(found(0.2), replace(limited, replications=5)) is None
    assert "ttft_mean_s ±20 %" in str(target_note(found(0.2), limited))
    assert target_note(found(0.05), limited) is None


def test_a_metric_that_the_run_does_not_have_is_a_mistake() -> None:
    with pytest.raises(InputError, match="slo_attainment"):
        next_replications(found(0.2), replace(OPTIONS, target_metrics=("slo_attainment",)))


def evaluate(options: EvaluationOptions) -> Evaluation:
    chat = load_workload("azure-conversation")
    load = replace(chat, models=(load_model("nemotron-h-4b"),), replay=None, arrivals=poisson(6.0))
    [found] = ServingSimulator().evaluate([placed()], load, load_calibration("default"), options, 3)
    return found


@pytest.mark.slow
def test_a_run_ends_when_every_interval_is_narrow_enough_and_not_before() -> None:
    start = replace(OPTIONS, target_ci=0.06, target_metrics=("ttft_mean_s", "tpot_mean_s"))
    once = evaluate(replace(start, target_ci=None))
    assert max(half_widths(once, start.target_metrics).values()) > 0.06
    narrow = evaluate(start)
    assert max(half_widths(narrow, start.target_metrics).values()) <= 0.06
    replications = int(narrow.notes[0].split()[0])
    assert replications > 2
    # A whole run of as many replications from the start is the same.
    assert evaluate(replace(start, target_ci=None, replications=replications)) == narrow
