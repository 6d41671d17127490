"""Yield of silicon by area, and dies on a wafer.

With `D` defects per area on a die of area `A`, `x = D·A`, the share of good dies is

    poisson             exp(−x)                   defects fall independently
    murphy              ((1 − exp(−x)) / x)²      D varies over wafers with a triangular density
    seeds               1 / (1 + x)               D varies with an exponential density
    negative-binomial   (1 + x/α)^(−α)            defects cluster; α → ∞ is Poisson, α = 1 is Seeds
"""

from __future__ import annotations

import math

from hydra_dse.errors import Fault, InputError, did_you_mean, one_of
from hydra_dse.hardware.technology import YIELD_MODELS, Wafer

MM2_PER_CM2 = 100.0


def silicon_yield(model: str, defects_per_cm2: float, area_mm2: float, clustering: float = 10.0) -> float:
    """Return the share of good dies.

    Args:
        model: one of `YIELD_MODELS`.
        defects_per_cm2: density of killing defects.
        area_mm2: of a die.
        clustering: α of the negative binomial model; the others do not use it.

    Raises:
        InputError: unknown model.
    """
    defects = defects_per_cm2 / MM2_PER_CM2 * area_mm2
    if model == "negative-binomial":
        return math.exp(-clustering * math.log1p(defects / clustering))
    if model == "poisson":
        return math.exp(-defects)
    if model == "murphy":
        return (-math.expm1(-defects) / defects) ** 2 if defects > 0 else 1.0
    if model == "seeds":
        return 1.0 / (1.0 + defects)
    hint = did_you_mean(model, YIELD_MODELS)
    raise InputError(Fault(f"unknown yield model {model!r}, expected {one_of(YIELD_MODELS)}{hint}"))


def passed_share(good: float, coverage: float) -> float:
    """Share of dies that pass a test that finds a share `coverage` of faults: `Y^coverage` (Williams and Brown)."""
    return math.pow(good, coverage)


def shipped_good_share(good: float, coverage: float) -> float:
    """Share of the dies that passed which are good: `Y^(1 − coverage)`."""
    return math.pow(good, 1.0 - coverage)


def dies_per_wafer(area_mm2: float, wafer: Wafer) -> float:
    """Return the mean number of square dies of an area on a wafer: its area over theirs less those cut by its rim.

    At least 1 while the area fits the usable wafer at all, else 0.
    """
    sawn = area_mm2 + 2.0 * wafer.scribe_mm * math.sqrt(area_mm2) + wafer.scribe_mm**2
    radius = wafer.diameter_mm / 2.0 - wafer.edge_mm
    usable = math.pi * radius**2
    count = usable / sawn - math.pi * 2.0 * radius / math.sqrt(2.0 * sawn)
    if count >= 1.0:
        return count
    return 1.0 if sawn <= usable else 0.0
