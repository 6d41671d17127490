from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hydra_dse.errors import InputError
from hydra_dse.search.archive import Archive
from hydra_dse.search.objectives import Objectives
from hydra_dse.search.pareto import nondominated_reference

BOTH = Objectives.named(["throughput_tokens_per_s", "ttft_mean_s"])
designs = st.lists(
    st.tuples(st.integers(1, 4), st.integers(1, 4), st.sampled_from([0.0, 0.0, 1.0])), min_size=1, max_size=40
)


def _losses(rows):
    rates, delays = (np.array([float(row[axis]) for row in rows]) for axis in (0, 1))
    return BOTH.losses({"throughput_tokens_per_s": rates, "ttft_mean_s": delays})


@given(designs, st.randoms(use_true_random=False), st.integers(1, 5))
@settings(deadline=None)
def test_the_archive_depends_on_what_was_added_and_not_on_the_order(rows, random, batch):
    names = [f"{index:03}" for index in range(len(rows))]
    violation = np.array([row[2] for row in rows])
    losses = _losses(rows)
    order = list(range(len(rows)))
    random.shuffle(order)
    archive, whole = Archive(BOTH), Archive(BOTH)
    whole.add(names, losses, violation)
    for start in range(0, len(order), batch):
        part = order[start : start + batch]
        archive.add([names[index] for index in part], losses[part], violation[part])
    assert archive.identities == whole.identities
    assert archive.losses.tolist() == whole.losses.tolist()
    feasible = np.flatnonzero(violation <= 0)
    expected = losses[feasible][nondominated_reference(losses[feasible])] if len(feasible) else np.empty((0, 2))
    assert sorted(map(tuple, np.unique(expected, axis=0))) == sorted(map(tuple, archive.losses))


def test_of_equal_designs_the_smallest_id_stays():
    archive = Archive(BOTH)
    archive.add(["b"], _losses([(2, 2)]), np.zeros(1))
    archive.add(["a", "c"], _losses([(2, 2), (2, 2)]), np.zeros(2))
    assert archive.identities == ("a",)


def test_rows_number_designs_in_the_order_of_scoring():
    archive = Archive(BOTH)
    archive.add(["x", "y"], _losses([(1, 1), (9, 9)]), np.array([1.0, 0.0]))
    archive.add(["z"], _losses([(9, 1)]), np.zeros(1))
    assert (archive.identities, archive.rows.tolist()) == (("z",), [2])


def test_an_infeasible_design_never_enters_and_the_closest_is_remembered():
    archive = Archive(BOTH)
    archive.add(["far", "near"], _losses([(9, 1), (9, 1)]), np.array([2.0, 0.5]))
    assert (len(archive), archive.closest, archive.hypervolume()) == (0, (0.5, "near"), None)


def test_a_wider_front_has_a_larger_hypervolume_below_the_same_reference():
    archive = Archive(BOTH)
    archive.add(["a", "b"], _losses([(1, 1), (2, 3)]), np.zeros(2))
    first = archive.hypervolume()
    archive.add(["c"], _losses([(4, 3)]), np.zeros(1))
    assert archive.hypervolume() > first


def test_best_values_are_in_the_direction_of_the_metric():
    archive = Archive(BOTH)
    archive.add(["a", "b"], _losses([(1, 1), (4, 3)]), np.zeros(2))
    assert archive.best() == {"throughput_tokens_per_s": 4.0, "ttft_mean_s": 1.0}


def test_a_factor_counts_the_same_anywhere_on_the_scale_of_hypervolume():
    losses = _losses([(1, 1), (2, 2), (4, 4)])
    steps = np.diff(BOTH.scaled(losses), axis=0)
    assert np.allclose(steps[0], steps[1])
    assert np.allclose(np.abs(steps), np.log10(2))


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ([], "at least one objective"),
        (["ttft_mean_s", "ttft_mean_s"], "named twice"),
        (["batch_mean"], "no better direction"),
        (["ttft_mean"], "did you mean 'ttft_mean_s'"),
    ],
)
def test_objectives_that_mean_nothing_are_refused(names, message):
    with pytest.raises(InputError, match=message):
        Objectives.named(names)
