from __future__ import annotations

import dataclasses

import numpy as np
import pandas as pd
import pytest

from hydra_dse.design.space import Parameter
from hydra_dse.errors import InputError
from hydra_dse.results import Violation
from hydra_dse.search.scores import ScoreTable
from hydra_dse.studies.designs_table import (
    ScoredDesigns,
    check_names,
    from_parquet,
    joined,
    point_in,
    same_points,
    to_parquet,
)
from studies.toy import ToyScorer, toy_space


def _designs(count=40, generation=0):
    points = tuple(list(toy_space().points())[:count])
    return ScoredDesigns(points, (generation,) * count, tuple(range(count)), ToyScorer().score(points))


def test_designs_read_back_as_they_were_written():
    designs = _designs()
    scores = dataclasses.replace(
        designs.scores,
        metrics={**designs.scores.metrics, "power_w": np.array([np.nan, np.inf, *[1 / 3] * 38])},
        low={"ttft_mean_s": np.full(40, 0.1)},
        high={"ttft_mean_s": np.full(40, np.nan)},
        violations=((Violation("memory", 3.0, np.inf, "B", ("more stacks", "fewer")),), *[()] * 39),
    )
    again = from_parquet(to_parquet(dataclasses.replace(designs, scores=scores)), "x")
    assert same_points(designs.points, again.points)
    assert (again.generation, again.trial) == (designs.generation, designs.trial)
    assert again.scores.violations == scores.violations
    for ours, theirs in (
        (scores.metrics, again.scores.metrics),
        (scores.low, again.scores.low),
        (scores.high, again.scores.high),
    ):
        assert list(ours) == list(theirs)
        assert all(np.array_equal(ours[name], theirs[name], equal_nan=True) for name in ours)


def test_others_read_the_table_with_pandas(tmp_path):
    (tmp_path / "designs.parquet").write_bytes(to_parquet(_designs()))
    table = pd.read_parquet(tmp_path / "designs.parquet")
    assert list(table.columns) == [
        "design", "generation", "trial", "source", "fast", "slow", "homes", "batch", "width", "memory",
        "feasible", "violation", "violations", "saturation_tokens_per_s", "ttft_mean_s", "power_w",
    ]  # fmt: skip
    assert table["source"].eq("estimated").all()
    assert (table["feasible"] == (table["violation"] == 0)).all()


def test_generations_join_in_order():
    both = joined([_designs(3), _designs(2, generation=1)])
    assert both.generation == (0, 0, 0, 1, 1)


@pytest.mark.parametrize(
    "damage", [lambda data: data[: len(data) // 2], lambda data: b"PAR1 not a table", lambda data: b""]
)
def test_a_damaged_table_is_named_in_one_message(damage):
    with pytest.raises(InputError, match=r"^runs/x/designs.parquet: not a readable table of designs"):
        from_parquet(damage(to_parquet(_designs())), "runs/x/designs.parquet")


def test_a_table_of_someone_else_is_refused(tmp_path):
    pd.DataFrame({"a": [1]}).to_parquet(tmp_path / "a.parquet")
    with pytest.raises(InputError, match="not a readable table of designs"):
        from_parquet((tmp_path / "a.parquet").read_bytes(), "a.parquet")


def test_a_parameter_may_not_have_the_name_of_a_result():
    space = toy_space(parameters=(Parameter("power_w", (1, 2)),), derived=("source",))
    with pytest.raises(InputError) as caught:
        check_names(space, ["power_w"])
    assert len(caught.value.faults) == 2


def test_a_stored_point_becomes_the_spaces_own_again():
    stored = {"fast": 2.0, "slow": 3, "homes": "aligned", "batch": 4, "width": 1, "memory": 99}
    point = point_in(toy_space(), stored)
    assert repr(point) == repr({"fast": 2, "slow": 3, "homes": "aligned", "batch": 4, "width": 1.0, "memory": 7})


def test_words_and_numbers_may_be_mixed_in_a_parameter():
    space = toy_space(parameters=(Parameter("limit", ("none", 3)),), derived=(), complete=lambda point: point)
    points = tuple(space.points())
    scores = ScoreTable(("a", "b"), {}, ((), ()))
    again = from_parquet(to_parquet(ScoredDesigns(points, (0, 0), (0, 1), scores)), "x")
    assert same_points(points, again.points)
    assert [point_in(space, point) for point in again.points] == list(points)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"homes": "scattered"}, "homes = 'scattered' is not a choice"),
        ({"fast": 10, "slow": 10}, "is not in space 'toy'"),
    ],
)
def test_a_point_of_another_space_is_refused(changes, message):
    stored = {"fast": 2, "slow": 3, "homes": "aligned", "batch": 4, "width": 1.0} | changes
    with pytest.raises(InputError, match=message):
        point_in(toy_space(), stored)
