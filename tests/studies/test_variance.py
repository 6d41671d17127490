"""Decomposition of variance: indices of functions whose indices are known, and designs at equal load."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from hydra_dse.config import load_calibration, load_space, load_variance, load_workload
from hydra_dse.errors import InputError
from hydra_dse.estimator import estimate_designs
from hydra_dse.estimator.shares import at_shares
from hydra_dse.studies.variance import decompose, jansen, values_of
from hydra_dse.workload import at_rate

SMALL = """\
name: small
models: [jamba-tiny]
workloads: [{workload: hydra-chat, slo: {ttft: 100 ms}}]
space: small-9
variance:
  factors:
    die mix: [hbm, Ap, Ad, Mp]
    placement: [placement]
    bandwidth: [link_gb_per_s]
    batching: [max_batch, batching]
    task map: [task_map]
  choices: {placement: [communication_aware, round_robin], batching: [chunked, static], task_map: [static, elastic]}
  rows: 8
"""
ROWS = 20_000


@pytest.fixture
def file(tmp_path):
    def write(text=SMALL):
        (tmp_path / "v.yaml").write_text(text)
        return tmp_path / "v.yaml"

    return write


def indices(function, factors):
    rng = np.random.default_rng(0)
    a, b = rng.random((factors, ROWS)), rng.random((factors, ROWS))
    mixed = []
    for factor in range(factors):
        drawn = a.copy()
        drawn[factor] = b[factor]
        mixed.append(function(*drawn))
    return jansen(function(*a), function(*b), np.array(mixed))


def test_a_sum_has_equal_first_and_total_indices_in_the_ratio_of_its_variances():
    first, total = indices(lambda x, y: 3.0 * x + 1.0 * y, 2)
    assert first == pytest.approx([0.9, 0.1], abs=0.03)
    assert total == pytest.approx([0.9, 0.1], abs=0.03)


def test_what_two_factors_do_only_together_is_in_their_total_indices_alone():
    # (x − 1/2)(y − 1/2) with uniform x and y: no factor alone moves the mean.
    first, total = indices(lambda x, y: (x - 0.5) * (y - 0.5), 2)
    assert first == pytest.approx([0.0, 0.0], abs=0.05)
    assert total == pytest.approx([1.0, 1.0], abs=0.05)


def test_a_factor_without_effect_has_a_total_index_of_exactly_zero():
    _, total = indices(lambda x, y: np.exp(x) + 0.0 * y, 2)
    assert total[1] == 0.0
    assert np.isnan(jansen(np.ones(3), np.ones(3), np.ones((2, 3)))[1]).all()


@pytest.mark.slow
def test_estimates_at_a_share_of_saturation_are_those_at_that_rate():
    space, calibration = load_space("small-9"), load_calibration("default")
    workload = load_workload("hydra-chat", ["model=jamba-tiny", "arrivals={process: poisson, rate: 1 req/s}"])
    built = [space.build(point) for point in list(space.points())[::40]]
    designs = [*built, replace(built[0], policy=replace(built[0].policy, batching="static"))]
    tokens, ttft = at_shares(designs, workload, calibration, [0.6])
    for row, design in enumerate(designs):
        saturation = estimate_designs([design], workload, calibration).metrics["saturation_requests_per_s"][0]
        found = estimate_designs([design], at_rate(workload, 0.6 * saturation), calibration).metrics
        assert tokens[row] == pytest.approx(found["saturation_tokens_per_s"][0], rel=1e-9)
        assert ttft[0.6][row] == pytest.approx(found["ttft_mean_s"][0], rel=1e-6)


def test_a_factor_takes_the_combinations_that_occur_in_the_space(file):
    study = load_variance(file())
    mix, placement, bandwidth, batching, _ = (values_of(study, factor) for factor in study.factors)
    assert len(mix) == 23
    assert {"hbm", "Ap", "Ad", "Mp"} == set(mix[0])
    assert placement == ({"placement": "communication_aware"}, {"placement": "round_robin"})
    assert [item["link_gb_per_s"] for item in bandwidth] == [256, 512]
    assert len(batching) == 4 * 2


@pytest.mark.slow
def test_a_small_space_is_decomposed_the_same_way_twice_and_names_every_factor(file):
    study = load_variance(file())
    rows = decompose(study)
    assert [row.factor for row in rows[:5]] == ["die mix", "placement", "bandwidth", "batching", "task map"]
    assert {row.response for row in rows} == {"saturation", "ttft_at_0.5", "ttft_at_0.8"}
    assert all(row.rows + row.dropped == 8 and row.total_low <= row.total <= row.total_high + 1e-12 for row in rows)
    # Batch limits of 4 to 32 move the saturation of this space far more than where the dies stand.
    saturation = {row.factor: row.total for row in rows if row.response == "saturation"}
    assert saturation["batching"] > 3 * saturation["placement"]
    assert decompose(study) == rows


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("[task_map]", "[task_mapp]", "did you mean 'task_map'"),
        ("[hbm, Ap, Ad, Mp]", "[hbm, Ap, Ad]", "no factor has parameter 'Mp'"),
        ("[task_map]", "[task_map, hbm]", "belongs to two factors"),
        ("rows: 8", "rows: 1", "rows"),
        ("space: small-9", "space: small-8", "did you mean 'small-9'"),
    ],
)
def test_mistakes_are_told_with_file_and_line(file, old, new, message):
    with pytest.raises(InputError) as error:
        load_variance(file(SMALL.replace(old, new)))
    assert message in str(error.value)
    assert "v.yaml:" in str(error.value)


def test_counts_that_are_drawn_apart_are_refused(file):
    apart = SMALL.replace("die mix: [hbm, Ap, Ad, Mp]", "die mix: [hbm, Ap, Ad]\n    others: [Mp]")
    study = load_variance(file(apart.replace("rows: 8", "rows: 64")))
    with pytest.raises(InputError, match="put its counts in one factor"):
        decompose(study)
