"""Fronts under drawn calibrations."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from hydra_dse.config import load_experiment
from hydra_dse.estimator.calibration_draws import posterior
from hydra_dse.results import Violation
from hydra_dse.search.objectives import Objectives
from hydra_dse.search.references import References
from hydra_dse.search.scores import ScoreTable
from hydra_dse.studies import sweep
from hydra_dse.studies.calibration_variants import Variant, VariantsHere, with_intervals
from hydra_dse.studies.front_odds import comparisons, odds_of
from hydra_dse.studies.front_uncertainty import ERROR_ONLY, uncertainty

OBJECTIVES = Objectives.named(["saturation_tokens_per_s", "ttft_mean_s"])
BROKEN = (Violation("power", 2.0, 1.0, "W"),)


def _table(rates, delays, violations=None):
    metrics = {"saturation_tokens_per_s": np.array(rates, float), "ttft_mean_s": np.array(delays, float)}
    ids = tuple("abc"[: len(rates)])
    return ScoreTable(ids, metrics, violations or ((),) * len(rates))


def test_odds_count_the_draws_in_which_a_design_is_in_front_and_what_it_loses_in_the_others():
    draws = [_table([10, 8, 1], [2, 1, 4]), _table([10, 5, 9], [1, 2, 3])]  # front: {a, b}, {a}
    odds = {one.design: one for one in odds_of("abc", 2, OBJECTIVES, draws[0], draws[1], draws)}
    assert [odds[name].in_front for name in "abc"] == [1.0, 0.5, 0.0]
    assert odds["a"].best == (1.0, 0.5)
    assert odds["b"].regret[0] == pytest.approx(((1 - 8 / 10) + (1 - 5 / 10)) / 2)
    # In the second draw a beats b twice in both objectives.
    assert odds["b"].dominated_by == pytest.approx((0 + 0.5) / 2)
    # c is beaten by b at least 4-fold in delay in the first draw; a beats it by 10/9 in rate in the second.
    assert odds["c"].dominated_by == pytest.approx(((1 - 1 / 4) + (1 - 9 / 10)) / 2)
    assert [odds[name].status for name in "abc"] == ["on front", "undecided", "off front"]


def test_a_design_that_breaks_a_limit_in_a_draw_is_not_in_its_front():
    draws = [_table([10, 8], [2, 1], (BROKEN, ())), _table([10, 8], [2, 1])]
    odds = {one.design: one for one in odds_of("ab", 2, OBJECTIVES, draws[1], draws[1], draws)}
    assert (odds["a"].in_front, odds["a"].feasible) == (0.5, 0.5)
    assert odds["b"].best == (0.5, 1.0)


def test_a_statement_whose_sign_flips_in_more_than_a_tenth_of_the_draws_is_undecided():
    nominal = _table([10, 9], [1, 2])
    draws = [_table([10, 9], [1, 2])] * 8 + [_table([9, 10], [1, 2])] * 2
    rate, delay = comparisons("ab", OBJECTIVES, nominal, draws)
    assert (rate.better, rate.holds, rate.decided) == ("a", 0.8, False)
    assert (delay.better, delay.holds, delay.decided) == ("a", 1.0, True)
    assert rate.ratio == pytest.approx(10 / 9)


def _experiment(*more):
    return load_experiment("quickstart", ["space=small-9", "search.trials=32", "rate=1 req/s", *more])


def test_draws_are_those_of_the_estimate_command():
    experiment = _experiment("calibration=measured")
    points = list(experiment.space.points())[:3]
    scorer = VariantsHere(experiment, References())
    designs = [experiment.space.build(point) for point in points]
    known = posterior(designs, experiment.workload, experiment.calibration, 2, seed=experiment.search.seed)
    for number in range(2):
        table = scorer.score(Variant(number), points)
        np.testing.assert_allclose(
            table.metrics["saturation_tokens_per_s"], known.draws["saturation_tokens_per_s"][number], rtol=1e-12
        )


def test_slower_memory_takes_the_stated_share_off_what_a_stack_gives():
    experiment = _experiment()
    point = next(iter(experiment.space.points()))
    before = experiment.space.build(point).package.memories[0].stack
    after = Variant(memory=0.85).of(experiment).space.build(point).package.memories[0].stack
    for efficiency in (0.5, 0.8, 1.0):
        expected = 0.85 * before.achievable_bytes_per_s(efficiency)
        assert after.achievable_bytes_per_s(efficiency) == pytest.approx(expected)


def test_a_calibration_without_intervals_is_drawn_by_its_relative_error():
    calibration = _experiment("calibration=default").calibration
    spread = with_intervals(calibration).default
    low, high = spread.intervals["memory.kv"]
    assert np.log(high / low) / 2 == pytest.approx(1.6449 * calibration.default.relative_error, rel=1e-3)
    stated = replace(calibration, default=replace(calibration.default, basis={"memory.kv": "assumption"}))
    assert with_intervals(stated) is stated


@pytest.mark.slow
def test_a_run_judged_in_two_processes_gives_the_same_bytes_and_more_draws_add_to_fewer(tmp_path):
    experiment = _experiment("calibration=default")
    for name in ("one", "two"):
        sweep(experiment, tmp_path / name)
    uncertainty(tmp_path / "one", draws=3, candidates=12)
    result = uncertainty(tmp_path / "one", draws=6, candidates=12)
    uncertainty(tmp_path / "two", draws=6, candidates=12, workers=2)
    for name in ("front_uncertainty.csv", "comparisons.csv"):
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()
    assert len((tmp_path / "one" / "draws.jsonl").read_text().splitlines()) == 2 + 6
    assert result.notes == (ERROR_ONLY,)
    assert all(0.0 <= one.in_front <= 1.0 for one in (*result.front, *result.behind))
