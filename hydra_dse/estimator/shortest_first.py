"""Waits by size where the shortest prompt goes first.

Size `k` waits `(1 − ρ)/((1 − ρ₋)(1 − ρ₊))` times as long as first come, first served, with `ρ₋` and `ρ₊` the loads of
all smaller sizes without and with its own slice (Cobham 1954).  Where the size does not change the work (a wait for a
slot) the loads are the shares of the requests, and the mean over sizes is that of first come, first served.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from hydra_dse.estimator.stages import Entry

FloatArray = NDArray[np.float64]

MOST = 0.995
"""Load above which slices are too wide to tell their waits apart."""


def waits_by_size(load: FloatArray, work: FloatArray, weight: FloatArray) -> FloatArray:
    """Waits relative to their mean, (…) and (…, sizes) → (…, sizes); their mean over `weight` is 1.

    Args:
        load: of the server.
        work: of a request of each size, ascending in size.
        weight: share of the requests of each size.
    """
    rho = np.clip(load, 0.0, MOST)[..., None]
    part = work * weight
    part = part / part.sum(axis=-1, keepdims=True)
    upto = rho * np.cumsum(part, axis=-1)
    found = (1.0 - rho) / ((1.0 - (upto - rho * part)) * (1.0 - upto))
    return np.asarray(found / (found @ weight)[..., None], dtype=np.float64)


def ordered(entry: Entry, load: FloatArray, slot_load: FloatArray) -> Entry:
    """An entry whose waits grow with the size of the prompt.

    Args:
        entry: of first come, first served, its mean wait for prompts scaled to the order.
        load: of the prompts at each of the surroundings, (n, j).
        slot_load: of the slots that hold it back, (n,).
    """
    weight = entry.own_bins.weight
    by_slots = waits_by_size(slot_load, np.ones((len(slot_load), len(weight))), weight)
    return replace(entry, order=waits_by_size(load, entry.own_s, weight), blocked_order=by_slots)
