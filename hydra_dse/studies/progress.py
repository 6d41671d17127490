"""How a long study tells how far it is: it calls `update` in order, and never looks at a clock.

A minimal listener is a class with one method `update(state)`; rates are the listener's to compute.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from hydra_dse.errors import Interrupted

__all__ = [
    "Interrupted",
    "StudyProgress",
    "StudyState",
    "SweepProgress",
    "SweepState",
    "ValidationProgress",
    "ValidationState",
]


@dataclass(frozen=True)
class SweepState:
    """Where a sweep stands after a generation.

    Attributes:
        done, total: designs scored, and to score.
        resumed: of `done`, those read from an earlier, interrupted run.
        best: best value of each objective so far.
        hypervolume: of the front so far, on the scale of `Archive.hypervolume`.
    """

    done: int
    total: int
    resumed: int
    generation: int
    feasible: int
    front: int
    best: Mapping[str, float] = field(default_factory=dict)
    hypervolume: float | None = None


class SweepProgress(Protocol):
    """Listens to a sweep."""

    def update(self, state: SweepState) -> None:
        """Take the state at the start and after every generation."""


@dataclass(frozen=True)
class ValidationState:
    """Where a validation stands: designs simulated, of how many, and the last one's id."""

    done: int
    total: int
    design: str = ""


class ValidationProgress(Protocol):
    """Listens to a validation."""

    def update(self, state: ValidationState) -> None:
        """Take the state at the start and after every design."""


@dataclass(frozen=True)
class StudyState:
    """Where a study of many tasks stands: done, of how many, and what it is at."""

    done: int
    total: int
    doing: str = ""


class StudyProgress(Protocol):
    """Listens to a study."""

    def update(self, state: StudyState) -> None:
        """Take the state after every task."""
