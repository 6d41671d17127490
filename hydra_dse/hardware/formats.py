"""Composed dies whose cores also multiply narrow numbers fast, for area.

A core that splits its multipliers runs a format of half the width at twice, of a quarter at four times its rate, at the
same power (energy per operation falls by the speed).  The splitting costs area, which a die within a budget pays with
cores and SRAM.  Assumption: a tenth of the core for 8-bit formats, 15 % for 4-bit ones.
"""

from __future__ import annotations

from dataclasses import replace

from hydra_dse.hardware.composition import DieRecipe

# Speed over the 16-bit rate, and area over the core's.
FAST_FORMATS = {"fp8": (2.0, 0.10), "int8": (2.0, 0.10), "fp4": (4.0, 0.15), "int4": (4.0, 0.15)}


def with_fast_format(recipe: DieRecipe, number_format: str) -> DieRecipe:
    """Return the recipe of the same die with fast multiplication in one more format of `FAST_FORMATS`."""
    speed, share = FAST_FORMATS[number_format]
    core = replace(recipe.core, area_mm2=recipe.core.area_mm2 * (1.0 + share))
    speeds = {**dict(recipe.format_speed), number_format: speed}
    return replace(recipe, name=f"{recipe.name}-{number_format}", core=core, format_speed=tuple(speeds.items()))
