"""Scaling, batch saturation and precision gain on runs whose answers are known."""

from __future__ import annotations

import pytest

from hydra_dse.bench.record import ModelShape, Profile
from hydra_dse.bench.tier2 import saturating_batch, tier2_of


def run(rate: float | None, chips: int = 1, batch: float | None = 8.0, **more: object) -> Profile:
    given = {"parallelism": "tensor" if chips > 1 else "", "model": ModelShape("m", 2, 8), **more}
    return Profile("r", "x", chips, batch=batch, samples_per_s=rate, **given)  # type: ignore[arg-type]


def test_perfect_scaling_has_no_communication() -> None:
    (scaling,) = tier2_of([run(10.0), run(20.0, 2), run(40.0, 4)]).scaling
    assert [point.efficiency for point in scaling.points] == [1.0, 1.0, 1.0]
    assert [point.step_change for point in scaling.points] == [None, 1.0, 1.0]
    assert (scaling.work, scaling.falls_after) == ("equal batch (8)", None)


def test_a_split_that_loses_names_the_last_degree_before_the_fall() -> None:
    (scaling,) = tier2_of([run(10.0), run(15.0, 2), run(9.0, 4)]).scaling
    assert scaling.points[-1].step_change == pytest.approx(-0.4)
    assert scaling.points[1].communication_share == pytest.approx(0.25)
    assert scaling.falls_after == 2


def test_equal_work_and_equal_work_a_chip_are_told_apart() -> None:
    runs = [run(10.0, 1, 8.0), run(12.0, 2, 8.0), run(18.0, 2, 16.0)]
    found = {scaling.work: scaling for scaling in tier2_of(runs).scaling}
    assert found["equal batch (8)"].points[-1].rate == 12.0
    assert found["equal batch per chip"].points[-1].rate == 18.0


def test_pairs_inside_a_longer_series_are_left_out() -> None:
    runs = [run(10.0), run(20.0, 2), run(40.0, 4), run(9.0, 1, 4.0)]
    (scaling,) = tier2_of(runs).scaling
    assert [point.chips for point in scaling.points] == [1, 2, 4]


def test_runs_of_different_models_or_precisions_are_not_compared() -> None:
    runs = [run(10.0), run(20.0, 2, model=ModelShape("other", 2, 8)), run(20.0, 2, precision="fp8")]
    assert tier2_of(runs).scaling == ()


def test_a_batch_saturates_where_doubling_it_gains_less_than_five_percent() -> None:
    points = [(1.0, 10.0), (2.0, 18.0), (4.0, 24.0), (8.0, 25.0), (16.0, 25.1)]
    assert saturating_batch(points) == 4.0
    assert saturating_batch(points[:3]) is None


def test_between_measured_batches_the_rate_is_linear_in_the_logarithm() -> None:
    # Doubling 10 lands halfway (in logarithm) between 10 and 40: gain 4 %.
    assert saturating_batch([(10.0, 100.0), (40.0, 108.0)]) == 10.0
    assert saturating_batch([(10.0, 100.0), (40.0, 112.0)]) is None


def test_linear_growth_has_elasticity_one() -> None:
    (found,) = tier2_of([run(3.0, batch=1.0), run(6.0, batch=2.0), run(12.0, batch=4.0)]).batch_saturation
    assert found.elasticity == pytest.approx(1.0)
    assert found.smallest_saturating_batch is None


def test_every_pair_of_precisions_is_named_slower_first() -> None:
    runs = [run(10.0, precision="fp32"), run(13.43, precision="mixed"), run(12.0, precision="bf16")]
    gains = {(gain.base, gain.faster): gain.gain for gain in tier2_of(runs).precision_gain}
    assert gains == {
        ("fp32", "mixed"): pytest.approx(0.343),
        ("fp32", "bf16"): pytest.approx(0.2),
        ("bf16", "mixed"): pytest.approx(13.43 / 12 - 1),
    }


def test_a_failed_run_is_listed_and_not_compared() -> None:
    result = tier2_of([run(10.0), run(None, 2, failure="OOM")])
    assert result.scaling == ()
    assert [failure.reason for failure in result.failures] == ["OOM"]
