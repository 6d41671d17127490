"""The fast cost of an iteration against a readable one that walks operator by operator, on shipped models."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from hydra_dse.config import load_calibration, load_model, load_space
from hydra_dse.design.nouns import Design, Placement
from hydra_dse.mapping import map_design
from hydra_dse.model.operators import Batch
from hydra_dse.operator_cost import compute_time_s
from simulators.iteration import Attended, Composition
from simulators.noi import fair_speeds
from simulators.package import PackageCost, PlacedHardware, ledger_of
from simulators.package.usage import keep_contended
from simulators.serving.engine import chunk_pairs

POINT = {"hbm": 12, "Ap": 3, "Ad": 3, "Mp": 3, "link_gb_per_s": 384, "max_batch": 16}
MODELS = ("nemotron-h-8b", "jamba-mini", "zamba2-7b", "gpt-oss-20b")


@cache
def hardware_of(model_name: str) -> PlacedHardware:
    """A hydra-24 design of 12 dies and 12 stacks, placed by hand."""
    space, model = load_space("hydra-24"), load_model(model_name)
    point = space.complete(POINT)
    assert point is not None
    design: Design = space.build(point)
    # Dies in the two middle rows of the 6 × 4 mesh, stacks in the outer ones: every stack touches a die.
    slots = (*range(6, 18), *range(6), *range(18, 24))
    design = replace(design, placement=Placement(slots))
    return PlacedHardware(design, map_design(design, model), load_calibration("default"), model.precision)


def composition(cost: PackageCost, prompts: list[tuple[int, int]], contexts: list[int], ends: int) -> Composition:
    """An iteration with prompt chunks (prior, tokens), decoders at the given contexts, and `ends` finished prompts."""

    def inside(window: int | None) -> Attended:
        cut = [context if window is None else min(context, window) for context in contexts]
        return Attended(
            sum(cut),
            sum(chunk_pairs(prior, tokens, window) for prior, tokens in prompts),
            sum(tokens + (prior if window is None else min(prior, window)) for prior, tokens in prompts),
            sum(window is None or context < window for context in contexts),
        )

    return Composition(
        sum(tokens for _, tokens in prompts),
        len(prompts),
        len(contexts),
        len(contexts) + ends,
        inside(None),
        tuple(inside(window) for window in cost.windows),
    )


def reference_seconds(cost: PackageCost, batch: Composition) -> float:
    """The duration by its definition, one operator, one die, one site, one link at a time."""
    hardware, seconds = cost.hardware, cost.placed.iteration_overhead_s
    for placed in cost.placed.operators:
        window = placed.operator.window
        attended = batch.attended if window is None else batch.windowed[cost.windows.index(window)]
        totals = Batch(
            prefill_tokens=float(batch.prefill_tokens),
            prefill_sequences=float(batch.prefill_sequences),
            prefill_pairs=attended.prefill_pairs,
            prefill_context_tokens=float(attended.prefill_tokens),
            decode_sequences=float(batch.decode_sequences),
            decode_context_tokens=float(attended.decode_tokens),
            emitted_tokens=float(batch.emitted_tokens),
        )
        demand = replace(placed.operator, window=None).demand(totals, hardware.precision)
        if demand.rows == 0:
            continue
        paths = placed.paths
        bytes_of = (
            (paths.weights, float(demand.weight_bytes) * placed.streamed),
            (paths.kv_reads, demand.kv_read_bytes),
            (paths.kv_writes, demand.kv_write_bytes),
            (paths.state_reads, demand.state_read_bytes),
            (paths.state_writes, demand.state_write_bytes),
        )
        site_s = sum(amount * path.site_s for path, amount in bytes_of)
        link_bytes = sum(amount * path.link_bytes for path, amount in bytes_of)
        for transfer in placed.activations:
            link_bytes = link_bytes + demand.rows * transfer.bytes_per_row * transfer.link_bytes
        slowest = max(
            float(compute_time_s(placed.operator, demand, totals, part.rates, part.share)) for part in placed.dies
        )
        longest = max(slowest, site_s.max(), (link_bytes / hardware.links.capacity_bytes_per_s).max())
        seconds += placed.operator.count * (longest + placed.fixed_s)
    return seconds


CASES = (
    ([(0, 700)], [], 1),
    ([(0, 512), (300, 77)], [], 0),
    ([(1000, 300)], [40, 900, 5000], 1),
    ([], [1], 0),
    ([], [50, 127, 128, 129, 4000], 0),
    ([(0, 1)], [130] * 15, 1),
)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("pool", ["prefill", "decode"])
def test_the_fast_duration_is_the_one_by_definition(model: str, pool: str) -> None:
    cost = PackageCost(hardware_of(model), pool)
    for prompts, contexts, ends in CASES:
        batch = composition(cost, list(prompts), list(contexts), ends)
        assert cost.work(batch).duration_s == pytest.approx(reference_seconds(cost, batch), rel=1e-12)


@pytest.mark.parametrize("model", MODELS)
def test_busy_seconds_of_single_iterations_add_up_to_the_ledger(model: str) -> None:
    cost = PackageCost(hardware_of(model), "decode")
    busy = 0.0
    for prompts, contexts, ends in CASES:
        work = cost.work(composition(cost, list(prompts), list(contexts), ends))
        shares = cost.usages_of(work)
        assert (shares >= 0.0).all()
        assert (shares <= 1.0 + 1e-12).all()
        busy = busy + shares * work.duration_s
        cost.count(work)
    ledger = ledger_of(cost, cost.snapshot())
    dies = [ledger.die_s.get(name, 0.0) for name in cost.usages.die_names]
    assert busy == pytest.approx(np.concatenate((dies, ledger.site_s, ledger.link_s)), rel=1e-9)


@pytest.mark.parametrize("model", MODELS)
def test_decode_steps_of_a_stretch_are_those_one_by_one_to_the_last_bit(model: str) -> None:
    cost = PackageCost(hardware_of(model), "decode")
    # Contexts that fill no window on the way.
    first = composition(cost, [], [3, 20, 60, 5000], 0)
    stretch = cost.stretch(first, 50)
    works = [cost.work(first.later(step)) for step in range(50)]
    assert stretch.duration_s.tolist() == [work.duration_s for work in works]
    assert stretch.parts_s.T.tolist() == [list(work.parts_s) for work in works]


@pytest.mark.parametrize("model", MODELS[:2])
def test_resources_left_out_as_never_contended_do_not_change_any_speed(model: str) -> None:
    pools = ("prefill", "decode")
    everything = [PackageCost(hardware_of(model), pool) for pool in pools]
    kept = [PackageCost(hardware_of(model), pool) for pool in pools]
    keep_contended([cost.usages for cost in kept])
    assert kept[0].usages.table.shape[1] < everything[0].usages.table.shape[1]
    for prompts, contexts in (([(0, 2048)], [900] * 16), ([(0, 40)], [60]), ([(5000, 900)], [9000] * 4)):
        works = [(prompts, [], 1), ([], contexts, 0)]
        speeds = []
        for costs in (everything, kept):
            usage = [
                cost.work(composition(cost, list(chunks), list(decoders), ends)).usage()
                for cost, (chunks, decoders, ends) in zip(costs, works, strict=True)
            ]
            speeds.append(fair_speeds(np.stack([part for part in usage if part is not None])))
        assert speeds[1] == pytest.approx(speeds[0], rel=1e-9)


def test_with_one_batch_in_flight_families_that_run_in_turn_are_busy_for_at_most_all_the_time() -> None:
    cost = PackageCost(hardware_of("nemotron-h-8b"), "decode")
    work = cost.work(composition(cost, [], [500] * 8, 0))
    cost.count(work)
    ledger = ledger_of(cost, cost.snapshot())
    by_group = cost.tokens.group_s[8] + cost.emitted.group_s[8] + np.array(work.parts_s)
    assert by_group.sum() + cost.placed.iteration_overhead_s == pytest.approx(work.duration_s, rel=1e-12)
    assert max(ledger.die_s.values()) <= work.duration_s
