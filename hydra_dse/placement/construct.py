"""First slots: component after component, in all layouts of many packages at once.

Each component goes, in the order of its traffic to those before it, to the slot of least added hop-bytes.  Every number
is computed by the same operations in the same order whatever else is in the batch, so a package gets the same slots in
any company.
"""

from __future__ import annotations

import numpy as np

from hydra_dse.placement.problem import BoolArray, FloatArray, IntArray

_NEAR_CENTRE = 1e-6


def constructed(flow: FloatArray, hops: FloatArray, allowed: BoolArray) -> IntArray:
    """Place every component of every package in every layout, shape (packages, layouts, components).

    Args:
        flow: traffic in both directions together, shape (packages, components, components).
        hops: shape (layouts, slots, slots).
        allowed: slots each component may take, shape (layouts, components, slots).
    """
    packages, layouts, count = len(flow), len(hops), flow.shape[1]
    every, layout = np.arange(packages)[:, None], np.arange(layouts)
    order = prim_order(flow)
    # Components in their order: those to come are the rest of the array.
    flow = flow[every[:, :, None], order[:, :, None], order[:, None, :]]
    closed = np.where(allowed, 0.0, np.inf)
    used = allowed.any(axis=1)
    # Hop-bytes a component would add on each slot; a trace of the distance to all others breaks ties to the centre.
    remote = np.einsum("lab,lb->la", hops, used) * _NEAR_CENTRE
    added = np.repeat(np.repeat(remote[None, None], count, axis=0), packages, axis=1)
    full = np.zeros((packages, layouts, hops.shape[1]))
    slots = np.zeros((packages, layouts, count), dtype=np.int64)
    for step in range(count):
        options = added[step] + full
        options += closed[layout, order[:, step, None]]
        chosen = options.argmin(axis=2)
        slots[every, layout, order[:, step, None]] = chosen
        full[every, layout, chosen] = np.inf
        share = flow[:, step, step + 1 :].T
        added[step + 1 :] += share[:, :, None, None] * hops[layout, chosen]
    return slots


def prim_order(flow: FloatArray) -> IntArray:
    """Order components by traffic to those before them, the busiest first (Prim's order), shape (packages, components).

    Args:
        flow: shape (packages, components, components).
    """
    packages = np.arange(len(flow))
    attached = flow.sum(axis=2) * 1e-3
    order = np.zeros(flow.shape[:2], dtype=np.int64)
    for step in range(flow.shape[1]):
        component = attached.argmax(axis=1)
        order[:, step] = component
        attached += flow[packages, component]
        attached[packages, component] = -np.inf
    return order
