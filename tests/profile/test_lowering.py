"""Designs lowered together against the same designs lowered one by one."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from hydra_dse.design.nouns import Design, MappingChoice, Placement
from hydra_dse.hardware.components import DieGroup, MemoryGroup
from hydra_dse.mapping import map_design, operands_of
from hydra_dse.model.operators import Batch, OperatorClass
from hydra_dse.network_load import LinkLoad, link_capacity
from hydra_dse.operator_cost import die_rates
from hydra_dse.profile import build_profile
from hydra_dse.profile.hardware import HardwareTable
from hydra_dse.profile.recipe import recipe_of
from hydra_dse.profile.rows import RowMaker
from hydra_dse.rng import derive
from hydra_dse.routing import route
from tests.mapping import pieces
from tests.mapping.pieces import chiplet, design, package, real, stack
from tests.profile.designs import batches, full_die_grid, random_design

MODEL = pieces.nemotron_h_8b()


def of_one_recipe(seed: int, serving: str, choice: MappingChoice, count: int = 12) -> list[Design]:
    """Designs with random counts, dies, stacks and places, mapped alike."""
    designs = [full_die_grid(random_design(100 * seed + number, serving)) for number in range(count)]
    # Dies of one style each, so that all rates stack; their numbers stay random.
    alike = []
    for on in designs:
        groups = tuple(
            replace(g, chiplet=replace(g.chiplet, style="systolic", shape_efficiency=())) for g in on.package.dies
        )
        alike.append(replace(on, package=replace(on.package, dies=groups), mapping=choice))
    return alike


CHOICES = [
    MappingChoice(parallelism=parallelism, homes=homes, sram_weight_share=0.4)
    for parallelism in ("tensor", "replica")
    for homes in ("aligned", "interleaved")
]
CHOICES += [MappingChoice(scan_split="speed", homes=homes) for homes in ("aligned", "interleaved")]
# An MLP on the SSM dies alone makes inputs move from group to group.
CHOICES.append(MappingChoice(groups={OperatorClass.MLP: ("Mp", "Md"), OperatorClass.SSM_SCAN: ("Ap", "Ad")}))


@pytest.mark.parametrize("serving", ["colocated", "disaggregated"])
@pytest.mark.parametrize("number", range(len(CHOICES)))
def test_designs_lowered_together_equal_those_lowered_one_by_one(serving: str, number: int) -> None:
    designs = of_one_recipe(number, serving, CHOICES[number])
    fast = build_profile(designs, MODEL, real())
    slow = build_profile(designs, MODEL, real(), vectorised=False)
    batch = batches(len(designs), 5)
    assert fast.violations == slow.violations and not any(fast.violations)
    assert fast.cache_bytes == pytest.approx(slow.cache_bytes, rel=1e-12)
    for name, pool in fast.pools.items():
        other = slow.pools[name]
        assert pool.time_s(batch) == pytest.approx(other.time_s(batch), rel=1e-11)
        assert pool.energy_j(batch) == pytest.approx(other.energy_j(batch), rel=1e-11)
        for key, seconds in other.busy_s(batch).items():
            assert pool.busy_s(batch)[key] == pytest.approx(seconds, rel=1e-11)
    if fast.contention is not None and slow.contention is not None:
        for mine, theirs in zip(
            fast.contention.speeds(batch, batch), slow.contention.speeds(batch, batch), strict=True
        ):
            assert mine == pytest.approx(theirs, rel=1e-9)


def test_one_recipe_is_lowered_in_one_table() -> None:
    designs = of_one_recipe(1, "disaggregated", CHOICES[0])
    table = HardwareTable(MODEL, real())
    table.index(designs)
    assert [[len(one.entries) for one in pool] for pool in table.pools] == [[len(designs)], [len(designs)]]


def test_rows_made_together_hold_the_numbers_of_the_row_maker() -> None:
    designs = of_one_recipe(2, "colocated", CHOICES[0], 6)
    table = HardwareTable(MODEL, real())
    table.index(designs)
    [[lowered]] = table.pools
    for row, on in enumerate(designs):
        placement = on.placement or Placement(())
        mapped = map_design(on, MODEL)
        load = LinkLoad(on.package, placement)
        single = RowMaker(
            on.package, mapped, load, lambda die: die_rates(die, real(), MODEL.precision), MODEL.precision
        ).row(mapped.pools[0])
        made = lowered.table
        used = [p for p in range(len(single.link_s)) if made.link_s[row, p].any()]
        assert made.link_s[row, used] == pytest.approx(single.link_s[used], rel=1e-11)
        assert made.site_s[row, :, : single.site_s.shape[1]] == pytest.approx(single.site_s, rel=1e-11)
        assert made.latency_s[:, row] == pytest.approx(single.latency_s, rel=1e-12)
        assert made.imbalance[:, row].tolist() == pytest.approx(single.imbalance.tolist(), rel=1e-12)
        assert made.resident[:, row] == pytest.approx(single.resident, rel=1e-12)
        assert made.share[..., row] == pytest.approx(single.share, rel=1e-12)
        assert made.count[:, row].tolist() == single.count.tolist()


def test_bytes_on_links_are_conserved_over_hops() -> None:
    # Seconds per byte times capacity, summed over links, are the hops of a byte: at least one for any that moves.
    designs = of_one_recipe(3, "disaggregated", CHOICES[0], 6)
    table = HardwareTable(MODEL, real())
    table.index(designs)
    for [lowered] in table.pools:
        made = lowered.table
        capacity = np.array([link_capacity(on.package) for on in designs])
        hops = (made.link_s * capacity[:, None, None]).sum(axis=2)
        groups = len(made.parallelism)
        weights = hops[:, : 3 * groups : 3]
        assert (weights >= 1.0 - 1e-9).all() and (weights <= 9.0).all()
        joules = np.array([on.package.link.joules_per_byte for on in designs])
        assert pytest.approx(hops * joules[:, None], rel=1e-12) == made.hop_j.T


def test_dies_with_memory_of_their_own_are_lowered_one_by_one_beside_the_others() -> None:
    gpu = design(pieces.h100(), mapping=pieces.NO_RESIDENCY)
    mixed = [of_one_recipe(4, "colocated", CHOICES[0], 1)[0], gpu, of_one_recipe(5, "colocated", CHOICES[0], 1)[0]]
    profile = build_profile(mixed, MODEL, real())
    batch = Batch(decode_sequences=8.0, decode_context_tokens=8e3, emitted_tokens=8.0)
    together = profile.pools["serve"].time_s(batch)
    for row, on in enumerate(mixed):
        alone = build_profile([on], MODEL, real(), vectorised=False).pools["serve"].time_s(batch)
        assert together[row] == pytest.approx(alone[0], rel=1e-11)


def test_single_dies_that_move_nothing_among_themselves_share_a_recipe_with_larger_groups() -> None:
    small = design(package((DieGroup("X", chiplet(), 1),), (MemoryGroup("H", stack(capacity_bytes=64e9), 1),), 3, 2))
    large = design(package((DieGroup("X", chiplet(), 4),), (MemoryGroup("H", stack(capacity_bytes=64e9), 1),), 3, 2))
    profile = build_profile([small, large], MODEL, real())
    batch = Batch(decode_sequences=8.0, decode_context_tokens=8e3, emitted_tokens=8.0)
    for row, on in enumerate((small, large)):
        alone = build_profile([on], MODEL, real(), vectorised=False)
        assert profile.pools["serve"].time_s(batch)[row] == pytest.approx(
            alone.pools["serve"].time_s(batch)[0], rel=1e-11
        )


def test_unreachable_components_are_found_among_designs_lowered_together() -> None:
    large = stack(capacity_bytes=64e9)
    on = package((DieGroup("A", chiplet(), 2),), (MemoryGroup("H", large, 1),), 3, 1)
    good, bad = design(on, slots=(0, 1, 2)), design(on, slots=(0, 2, 1))
    profile = build_profile([good, bad], MODEL, real())
    assert [[v.constraint for v in found] for found in profile.violations] == [[], ["components without a route"]]


def test_mappings_that_a_recipe_does_not_cover_have_none(monkeypatch: pytest.MonkeyPatch) -> None:
    on = design(pieces.two_families())
    operands = operands_of(MODEL)
    assert recipe_of(on, operands) is not None
    monkeypatch.setattr("hydra_dse.profile.recipe._KINDS", ("gather", "reduce"))
    forwarded = replace(on, mapping=MappingChoice(groups={OperatorClass.SSM_SCAN: ("A",)}))
    assert recipe_of(forwarded, operands) is None
    together = HardwareTable(MODEL, real())
    together.index([forwarded])
    assert [len(pool) for pool in together.pools] == [1]


def test_paths_of_a_route_table_are_those_it_gives_one_by_one() -> None:
    rng = derive(0, "paths")
    topology = package((DieGroup("A", chiplet(), 4),), (), 5, 4).topology
    transit = tuple(bool(taken) for taken in rng.random(20) < 0.8)
    table = route(topology, transit)
    for source in range(20):
        for target in range(20):
            if table.reachable[source, target]:
                taken = table.paths[source, target]
                assert tuple(taken[taken >= 0].tolist()) == table.path(source, target)
