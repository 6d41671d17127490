"""The role states of an elastic design taken apart: shares of time, speeds, and what a change costs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hydra_dse.estimator.elastic import Elastic
from hydra_dse.estimator.phases import Phases
from hydra_dse.estimator.role_chain import phases_of


@dataclass(frozen=True)
class RoleStateRow:
    """One role state.

    Attributes:
        units: units of decode dies that serve prefill; negative: units of prefill dies that serve decode.
        time_share: share of time in it, changes left out.
        prefill_tokens_per_s: prompt tokens per second of full iterations, alone.
        decode_iteration_s: decode iteration of a full batch, alone.
    """

    units: int
    time_share: float
    prefill_tokens_per_s: float
    decode_iteration_s: float


@dataclass(frozen=True)
class RoleChangeRow:
    """A change from one state to the next.

    Attributes:
        before: units of decode dies in prefill before it.
        after: the same after it.
        drain_s: mean time until the running iterations that it waits for have ended.
        moved_bytes: bytes that SRAM loads in the new state and did not hold in the old one.
        moved_s: time that takes over the stacks and links alone.
        delay_s: all of it.
    """

    before: int
    after: int
    drain_s: float
    moved_bytes: float
    moved_s: float
    delay_s: float


def explain_roles(
    solver: Elastic, rate: float, arrival_scv: float, phases: Phases | None
) -> tuple[tuple[RoleStateRow, ...], tuple[RoleChangeRow, ...]]:
    """The role states and changes of the first design of a solver at an arrival rate."""
    served = np.minimum(np.full(len(solver.saturation_per_s), rate), 0.998 * solver.saturation_per_s)
    found, roles = solver.balanced(served, arrival_scv, phases=phases), solver.roles
    lowest, highest = int(roles.lowest[0]), int(roles.highest[0])
    states = []
    for state in range(lowest, highest + 1):
        share = [
            float(found.roles.share[0, number])
            for number, phase in enumerate(phases_of(roles.size))
            if phase.kind == "still" and phase.prefill == state
        ]
        tables = solver.phases[state]
        states.append(
            RoleStateRow(
                units=state - roles.native,
                time_share=sum(share),
                prefill_tokens_per_s=float(1.0 / tables.prompts.token_s[0, 0]),
                decode_iteration_s=float(tables.nodes.at(tables.step_s, tables.limit[:, None])[0, 0]),
            )
        )
    changes = []
    for low in range(lowest, highest):
        for direction, (before, after) in enumerate(((low, low + 1), (low + 1, low))):
            delay = float((found.rise_s, found.fall_s)[direction][0, low])
            moved = float(roles.move_s[0, low, direction])
            changes.append(
                RoleChangeRow(
                    before - roles.native,
                    after - roles.native,
                    delay - moved,
                    float(roles.move_bytes[0, low, direction]),
                    moved,
                    delay,
                )
            )
    return tuple(states), tuple(changes)
