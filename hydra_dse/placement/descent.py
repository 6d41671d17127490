"""Descent on hop-bytes: the best swap of two components, in all layouts of many packages at once.

The change of every swap comes from one matrix product: with `G = F · D`, swapping `i` and `j` adds
`G_ij + G_ji - G_ii - G_jj + 2 F_ij D_ij` (`F` symmetric traffic, `D` hops between the present slots).
"""

from __future__ import annotations

import numpy as np

from hydra_dse.placement.problem import BoolArray, FloatArray, IntArray

_MAX_STEPS = 200
_CLOSER = 1e-9


def descend(
    flow: FloatArray, hops: FloatArray, slots: IntArray, exchangeable: BoolArray, fits: BoolArray | None = None
) -> IntArray:
    """Swap components of one kind in every layout while hop-bytes fall.

    Args:
        flow: traffic in both directions together, shape (packages, components, components).
        hops: shape (layouts, slots, slots).
        slots: shape (packages, layouts, components); not changed.
        exchangeable: pairs of components that may change places, shape (components, components).
        fits: whether a component fits a slot, shape (components, slots); by default all do.
    """
    layouts, count = slots.shape[1:]
    found = slots.reshape(-1, count).copy()
    active = np.arange(len(found))
    here, flows = found.copy(), np.repeat(flow, layouts, axis=0)
    between = hops[(active % layouts)[:, None, None], here[:, :, None], here[:, None, :]]
    barred = np.where(exchangeable, 0.0, np.inf)
    for _ in range(_MAX_STEPS):
        change = hop_change(flows, between)
        change += barred
        if fits is not None:
            change[~_fit_after_swap(fits, here)] = np.inf
        flat = change.reshape(len(active), -1)
        best = flat.argmin(axis=1)
        better = flat[np.arange(len(active)), best] < -_CLOSER
        if not better.all():
            found[active[~better]] = here[~better]
            active, best, here, between, flows = (part[better] for part in (active, best, here, between, flows))
        if not len(active):
            break
        _exchange(here, between, *np.divmod(best, count))
    found[active] = here
    return found.reshape(slots.shape)


def _exchange(slots: IntArray, between: FloatArray, first: IntArray, second: IntArray) -> None:
    """Swap a pair in every row of `slots` and in the hops between them."""
    rows = np.arange(len(slots))
    slots[rows, first], slots[rows, second] = slots[rows, second], slots[rows, first]
    between[rows, first], between[rows, second] = between[rows, second], between[rows, first]
    columns = between[rows, :, first]
    between[rows, :, first] = between[rows, :, second]
    between[rows, :, second] = columns


def _fit_after_swap(fits: BoolArray, slots: IntArray) -> BoolArray:
    there = fits[np.arange(len(fits))[None, :, None], slots[:, None, :]]
    both: BoolArray = there & there.swapaxes(-1, -2)
    return both


def hop_change(flow: FloatArray, between: FloatArray) -> FloatArray:
    """Change of hop-bytes by every swap, shape (layouts, components, components).

    Args:
        flow: shape (layouts, components, components), or one for all.
        between: hops between the slots of the components, shape (layouts, components, components).
    """
    moved = flow @ between
    own = np.diagonal(moved, axis1=-2, axis2=-1)
    change: FloatArray = moved + moved.swapaxes(-1, -2)
    change -= own[:, :, None]
    change -= own[:, None, :]
    change += 2.0 * flow * between
    return change
