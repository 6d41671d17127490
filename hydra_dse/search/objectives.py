"""Objectives: from metric values to losses, and to the scale on which hypervolumes are measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from hydra_dse.errors import Fault, InputError
from hydra_dse.results import metric
from hydra_dse.results.metrics import MAXIMISE, NEITHER, Metric
from hydra_dse.search.pareto import FloatArray


@dataclass(frozen=True)
class Objectives:
    """The metrics to optimise, each in its own direction."""

    metrics: tuple[Metric, ...]

    @classmethod
    def named(cls, names: Sequence[str]) -> Objectives:
        """Objectives of these metric names.

        Raises:
            InputError: none, unknown, repeated, or without a better direction.
        """
        faults = [] if names else [Fault("an experiment needs at least one objective", path="objectives")]
        faults += [Fault(f"objective {name!r} is named twice", path="objectives") for name in _repeated(names)]
        metrics = tuple(metric(name) for name in names)
        for found in metrics:
            if found.direction == NEITHER:
                faults.append(Fault(f"{found.name!r} has no better direction, so it cannot be an objective"))
        if faults:
            raise InputError(faults)
        return cls(metrics)

    @property
    def names(self) -> tuple[str, ...]:
        """Metric names, in the experiment's order."""
        return tuple(found.name for found in self.metrics)

    @property
    def maximised(self) -> tuple[bool, ...]:
        """Whether each objective is to be maximised."""
        return tuple(found.direction == MAXIMISE for found in self.metrics)

    def losses(self, values: Mapping[str, FloatArray]) -> FloatArray:
        """Losses (points, objectives), smaller is better, of metric arrays."""
        signs = np.where(self.maximised, -1.0, 1.0)
        return np.stack([np.asarray(values[name], dtype=float) for name in self.names], axis=-1) * signs

    def scaled(self, losses: FloatArray) -> FloatArray:
        """Losses on the scale of hypervolume: log₁₀ of quantities with a unit, shares and counts as they are.

        Latencies, rates and areas span decades, so that on a linear scale one end of the front would hold
        all the volume; on a log scale a factor of two counts the same anywhere, and a rate as much as its inverse.
        """
        signs = np.where(self.maximised, -1.0, 1.0)
        logs = np.array([found.unit != "1" for found in self.metrics])
        tiny = np.finfo(float).tiny
        values = np.maximum(losses * signs, tiny)
        return np.where(logs, np.log10(values) * signs, losses)


def _repeated(names: Sequence[str]) -> list[str]:
    return [name for index, name in enumerate(names) if name in names[:index]]
