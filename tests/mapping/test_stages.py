"""Pipelines: stages of consecutive blocks on their own dies, what moves between them, and their closed form."""

from __future__ import annotations

import numpy as np
import pytest

from hydra_dse.config import load_design
from hydra_dse.config.hardware import load_calibration
from hydra_dse.config.workloads import load_model
from hydra_dse.design.nouns import Design
from hydra_dse.errors import InputError
from hydra_dse.mapping import ledger, map_design, mapping_violations, operands_of, traffic
from hydra_dse.mapping.stages import stages_of
from hydra_dse.model.operators import Batch, OperatorClass
from hydra_dse.placement import place_design
from hydra_dse.profile import build_profile
from hydra_dse.profile.reference import ReferencePool

CALIBRATION = load_calibration()
MODEL = load_model("nemotron-h-8b")
BASE = ("dies.Ap.count=2", "dies.Mp.count=4", "dies.Ad.count=2", "dies.Md.count=10")
BATCH = Batch(decode_sequences=16.0, decode_context_tokens=16_000.0, emitted_tokens=16.0)


def design(degree: int, *overrides: str) -> Design:
    return load_design("hydra-24-nemotron-chat", [*BASE, f"mapping.pipeline={degree}", *overrides])


def placed(degree: int, in_flight: int) -> Design:
    found, violations = place_design(design(degree, f"policy.batches_in_flight={in_flight}"), MODEL, 0)
    assert not violations
    return found


def decode_time(one: Design) -> float:
    return float(np.asarray(build_profile([one], MODEL, CALIBRATION).pools["decode"].time_s(BATCH))[0, 0])


def test_groups_are_cut_and_components_keep_their_numbers() -> None:
    package = design(2).package
    assert [(group.name, group.count, group.stage) for group in package.dies if group.name.startswith("M")] == [
        ("Mp.1", 2, 0),
        ("Mp.2", 2, 1),
        ("Md.1", 5, 0),
        ("Md.2", 5, 1),
    ]
    assert package.die_count == design(1).package.die_count


@pytest.mark.parametrize("degree", [1, 2, 3, 5])
def test_stages_together_run_every_operator_of_the_model_once(degree: int) -> None:
    operands = operands_of(MODEL)
    stages = stages_of(operands, degree)
    assert len(stages) == degree
    for kind in OperatorClass:
        weights = [sum(o.count * o.weight_elements for o in part if o.kind is kind) for part in stages]
        whole = sum(o.count * o.weight_elements for o in operands.operators if o.kind is kind)
        assert sum(weights) == pytest.approx(whole)
    assert [any(o.kind is OperatorClass.EMBEDDING for o in part) for part in stages] == [True] + [False] * (degree - 1)
    assert [any(o.kind is OperatorClass.LM_HEAD for o in part) for part in stages] == [False] * (degree - 1) + [True]


def test_a_degree_that_does_not_divide_the_blocks_gives_the_first_stages_one_more() -> None:
    norms = [sum(o.count for o in part if o.name.endswith("block_norm")) for part in stages_of(operands_of(MODEL), 3)]
    assert norms == [18, 17, 17]


def test_the_residual_stream_moves_once_from_stage_to_stage() -> None:
    mapped = map_design(design(2), MODEL)
    rows = [row for row in ledger(mapped, "decode", BATCH, MODEL.precision) if row.operand == "activations (stage)"]
    assert [row.total_bytes for row in rows] == pytest.approx([16.0 * MODEL.hidden_size * 2.0])
    [moved] = [
        transfer
        for operator in mapped.pool("decode").operators
        for transfer in operator.transfers
        if transfer.kind == "stage"
    ]
    names = [group.name for group in design(2).package.dies for _ in range(group.count)]
    assert {names[die] for die in moved.sources} == {"Ad.1", "Md.1"}
    assert {names[die] for die in moved.targets} == {"Ad.2", "Md.2"}


def test_activations_within_a_stage_stay_on_its_dies() -> None:
    mapped = map_design(design(2), MODEL)
    package = design(2).package
    first = [die for group in package.dies if group.stage == 0 for die in package.die_indices(group.name)]
    second = [die for group in package.dies if group.stage == 1 for die in package.die_indices(group.name)]
    between = traffic(mapped, "decode", BATCH, MODEL.precision)[np.ix_(second, first)]
    assert between.sum() == 0.0


def test_a_stage_without_dies_of_a_family_is_a_violation() -> None:
    found = mapping_violations(design(3), MODEL)
    assert any("in stage 3 of 3 of pool 'decode' runs 'attention'" in violation.constraint for violation in found)


def test_experts_placed_whole_in_stages_are_refused() -> None:
    with pytest.raises(InputError, match=r"mapping\.pipeline: 2 stages with experts placed whole"):
        design(2, "mapping.parallelism=expert")


def test_tables_agree_with_the_readable_form() -> None:
    one = placed(2, 2)
    readable = ReferencePool(one, MODEL, CALIBRATION, "decode")
    assert decode_time(one) == pytest.approx(readable.time_s(BATCH), rel=1e-9)


def test_stages_run_in_turn_for_one_batch_and_the_slowest_resource_sets_the_pace_of_two() -> None:
    serial, filled = placed(2, 1), placed(2, 2)
    readable = ReferencePool(serial, MODEL, CALIBRATION, "decode")
    busy = readable.busy_s(BATCH)
    # One batch: every family of every stage in turn.
    used = sum(share for name, share in busy.items() if name not in ("hbm", "noi"))
    overlapped = busy["Ad.1"] + busy["Md.1"] + busy["Ad.2"] + busy["Md.2"]
    assert used == pytest.approx(overlapped)
    assert max(busy["Md.1"], busy["Md.2"]) < readable.time_s(BATCH)
    # Two batches of half the size: all advance once in the serial time of a half, or twice its busiest resource.
    half = Batch(decode_sequences=8.0, decode_context_tokens=8_000.0, emitted_tokens=8.0)
    alone = readable.time_s(half)
    worst = max(readable.busy_s(half).values())
    assert decode_time(filled) == pytest.approx(max(alone, 2.0 * worst))
