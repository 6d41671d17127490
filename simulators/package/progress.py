"""How far an iteration is: its current operator and its computation, its streams, and the SRAM left to them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from simulators.package.steps import Flow, Step

SLACK = 1e-9
"""Share of the SRAM that is lost to rounding."""

WAITS, GATHERS, COMPUTES, ENDS, REDUCES, PASSED_ON = range(6)
"""Phases of the current operator: for dies, for activations, data under way, all data there, results under way."""


@dataclass
class Progress:
    """How far the computation of the current operator is: a share `done` of it at `at_s`.

    Attributes:
        late_s: from the arrival of the last byte of a tile to its use.
    """

    at_s: float = 0.0
    done: float = 0.0
    late_s: float = 0.0

    def advance(self, now_s: float, compute_s: float, there: float) -> None:
        """Bring it up to now; it cannot be ahead of its data, a share `there` of them."""
        if now_s < self.at_s:
            return
        done = 1.0 if compute_s <= 0.0 else self.done + (now_s - self.at_s) / compute_s
        self.done, self.at_s = min(done, there), now_s


class State(NamedTuple):
    """What an iteration has under way at the start of a block.

    Attributes:
        ahead: operators from the current one whose reads are all there.
        fetched, target: share of the next one's reads that is there, and that will be with the tile under way.
        tile, writes: routes and bytes left.
    """

    ahead: int
    fetched: float
    target: float
    tile: tuple[Flow, ...]
    writes: tuple[Flow, ...]


def free_share(step: Step, fetched: float, ahead: Sequence[Step], current: Step | None, done: float) -> float:
    """Share of a step's reads that fits into the SRAM that is free now.

    Args:
        step: whose reads come next.
        fetched: share of them that is there.
        ahead: steps before it whose reads are all there.
        current: the one under way, of which a share `done` is computed and its data are gone; None = none is.
        done: that share.
    """
    dies = step.dies
    held = step.buffer_need * fetched
    for other in ahead:
        if other.buffer_need > 0.0 and not apart(dies, other.dies):
            held += other.buffer_need
    if current is not None and not apart(dies, current.dies):
        held -= current.buffer_need * done
    return max(0.0, 1.0 - held) / step.buffer_need


def apart(some: tuple[int, ...], others: tuple[int, ...]) -> bool:
    """Whether two operators have no die in common."""
    return some is not others and not set(some) & set(others)
