"""Share of a memory's bandwidth by the size of an access and by how many go on side by side, from fitted kernels.

An access is the KV of one sequence and head, or one state; `n` of them in a kernel take
`floor + n · entry + n · size / (bandwidth · streamed)`, so their share of the bandwidth is
`n · size / (bandwidth · time)`.
Few accesses side by side do not hide the floor, small ones not their entry; the share of large and many is `streamed`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from hydra_dse.calibration.records import ParameterSection

PARAMETERS = {"decode-attention": ("streamed", "entry"), "state-update": ("moved", None)}
"""Names of share and entry time by form; a state has no entry time of its own in the fit."""


@dataclass(frozen=True)
class AccessShare:
    """Share of the bandwidth with its 90 % interval (parameters at their own limits: an upper bound of its width)."""

    value: float
    low: float
    high: float


def access_share(
    form: str, parameters: Mapping[str, ParameterSection], bandwidth_bytes_per_s: float, size_bytes: float, count: float
) -> AccessShare:
    """Return the share of `count` accesses of a size in one kernel.

    Args:
        form: `"decode-attention"` or `"state-update"`.
        parameters: of the fit.
        bandwidth_bytes_per_s: peak of the memory.
        size_bytes: read (and written) by one access.
        count: accesses side by side: sequences × KV heads, or sequences × state heads.

    Raises:
        KeyError: a form that does not speak of memory.
    """
    share, entry = PARAMETERS[form]

    def at(floor_and_entry: str, streamed: str) -> float:
        fixed = float(getattr(parameters["floor"], floor_and_entry))
        each = float(getattr(parameters[entry], floor_and_entry)) if entry else 0.0
        moved = count * size_bytes / bandwidth_bytes_per_s
        return moved / (fixed + count * each + moved / float(getattr(parameters[share], streamed)))

    return AccessShare(at("value", "value"), at("high", "low"), at("low", "high"))


def half_size_bytes(parameters: Mapping[str, ParameterSection], bandwidth_bytes_per_s: float) -> float:
    """Size of a KV access at which its entry takes as long as its bytes."""
    return parameters["entry"].value * bandwidth_bytes_per_s * parameters["streamed"].value
