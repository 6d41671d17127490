from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from hydra_dse.search.pareto import nondominated_reference
from hydra_dse.studies.selection import select, spread_order

LINE = np.array([[float(step), 10.0 - step] for step in range(11)])
IDS = [f"d{index:02}" for index in range(11)]


def test_the_ends_of_a_front_come_first_and_then_the_middle():
    assert spread_order(LINE, np.arange(11), IDS)[:3] == [0, 10, 5]


def test_few_designs_cover_the_front_from_end_to_end():
    chosen = sorted(select(LINE, np.zeros(11), np.zeros(11), IDS, 5))
    assert chosen[0] == 0
    assert chosen[-1] == 10
    assert max(np.diff(chosen)) <= 4


def test_the_choice_does_not_depend_on_the_order_of_the_rows():
    order = np.random.default_rng(1).permutation(11)
    names = [IDS[index] for index in order]
    chosen = select(LINE[order], np.zeros(11), np.zeros(11), names, 6)
    assert [names[index] for index in chosen] == [
        IDS[index] for index in select(LINE, np.zeros(11), np.zeros(11), IDS, 6)
    ]


def test_a_short_front_is_topped_up_from_the_next_ones():
    losses = np.array([[0.0, 0.0], [3.0, 3.0], [1.0, 2.0], [2.0, 1.0], [9.0, 9.0]])
    assert select(losses, np.zeros(5), np.zeros(5), list("abcde"), 4) == [0, 2, 3, 1]


def test_infeasible_designs_are_never_chosen():
    assert select(LINE, np.r_[np.ones(10), 0.0], np.zeros(11), IDS, 5) == [10]
    assert select(LINE, np.ones(11), np.zeros(11), IDS, 5) == []


def test_half_of_the_designs_have_a_moderate_load_while_there_are_any():
    losses = np.concatenate([LINE, LINE + 5.0])
    load = np.r_[np.full(11, 0.95), np.full(11, 0.6)]
    names = [f"d{index:02}" for index in range(22)]
    chosen = select(losses, np.zeros(22), load, names, 8)
    assert len(chosen) == len(set(chosen)) == 8
    assert sum(load[index] <= 0.8 for index in chosen) == 4
    assert {0, 10} <= set(chosen)


def test_where_no_load_is_moderate_the_front_stands():
    chosen = select(LINE, np.zeros(11), np.full(11, 0.9), IDS, 4)
    assert sorted(chosen) == sorted(spread_order(LINE, np.arange(11), IDS)[:4])


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=1, max_size=30), st.integers(1, 12))
@settings(deadline=None)
def test_as_many_as_wanted_are_chosen_and_the_front_before_all_others(rows, top):
    losses = np.array(rows, dtype=float)
    chosen = select(
        losses, np.zeros(len(rows)), np.zeros(len(rows)), [f"{index:02}" for index in range(len(rows))], top
    )
    front = set(np.flatnonzero(nondominated_reference(losses)).tolist())
    assert len(chosen) == len(set(chosen)) == min(top, len(rows))
    assert len(front & set(chosen)) == min(top, len(front))
