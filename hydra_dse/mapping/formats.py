"""In which number format a die multiplies."""

from __future__ import annotations

from hydra_dse.hardware.components import Chiplet

_SAME_WIDTH = {"fp16": "bf16"}


def speed_of(chiplet: Chiplet, number_format: str) -> float | None:
    """Speed of a die in a format relative to its `matmul_format`, None where it does not support it.

    Operands are multiplied in the format of the activations; narrower weights are widened in the die.
    fp16 and bf16 run alike.
    """
    speeds = {chiplet.matmul_format: 1.0, **dict(chiplet.format_speed)}
    if number_format in speeds:
        return speeds[number_format]
    twin = _SAME_WIDTH.get(number_format, number_format)
    return next((speed for name, speed in speeds.items() if _SAME_WIDTH.get(name, name) == twin), None)
