from __future__ import annotations

from hydra_dse.search.variants import Candidate, Variants


def _candidate(outer, *variants):
    return Candidate(outer, variants, tuple({"variant": variant} for variant in variants))


def _variants():
    kept = Variants(4)
    kept.add(_candidate((0,), 0, 1, 2, 3))
    kept.add(_candidate((1,), 1, 3))
    return kept


def test_a_design_is_traced_to_its_outer_point_and_variant_by_its_number():
    kept = _variants()
    assert [kept.owner(row) for row in range(6)] == [((0,), 0), ((0,), 1), ((0,), 2), ((0,), 3), ((1,), 1), ((1,), 3)]


def test_active_variants_are_those_of_the_front():
    assert _variants().active([5, 3, 1]) == [1, 3]


def test_every_variant_is_active_while_there_is_no_front():
    assert _variants().active([]) == [0, 1, 2, 3]


def test_inactive_variants_take_turns_and_none_is_written_off():
    kept = Variants(6)
    chosen = [kept.chosen([2]) for _ in range(5)]
    assert all(len(one) == kept.chosen_count([2]) == 3 and 2 in one for one in chosen)
    explored = [variant for one in chosen for variant in one if variant != 2]
    assert {variant: explored.count(variant) for variant in (0, 1, 3, 4, 5)} == {0: 2, 1: 2, 3: 2, 4: 2, 5: 2}


def test_what_was_passed_over_is_known_by_outer_point():
    kept = _variants()
    assert kept.missing((1,), range(4)) == [0, 2]
    assert list(kept.unfinished()) == [(1,)]
