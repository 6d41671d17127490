"""A decomposition of variance over a space: which factors, under which loads, with how many rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from hydra_dse.design.comparison import Load
from hydra_dse.design.space import SearchSpace
from hydra_dse.hardware.calibration import CalibrationSet


@dataclass(frozen=True)
class Factor:
    """Parameters of the space, or choices beside it, drawn together: each combination as likely as any other."""

    name: str
    parameters: tuple[str, ...]


@dataclass(frozen=True)
class Decomposition:
    """Everything the study needs.

    Attributes:
        choices: `"placement"`, `"batching"` and `"task_map"` → values.
        shares: of each design's own saturation rate, at which TTFT is looked at.
        rows: draws of each of the two sides; (factors + 2) × rows designs are estimated for every load.
    """

    name: str
    loads: tuple[Load, ...]
    space: SearchSpace
    factors: tuple[Factor, ...]
    choices: Mapping[str, tuple[str, ...]]
    shares: tuple[float, ...]
    rows: int
    seed: int
    calibration: CalibrationSet
