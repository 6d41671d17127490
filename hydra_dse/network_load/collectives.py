"""Times of collective operations on links of equal bandwidth, without contention from other flows.

`alpha_s` is the latency of one message over one hop, `beta` the bytes per second of one directed link, `size_bytes`
the full vector.  Source: Thakur, Rabenseifner and Gropp, "Optimization of collective communication operations in
MPICH" (2005); the mesh form runs a ring in every row, then in every column.
"""

from __future__ import annotations

import math


def ring_reduce_scatter_s(dies: int, size_bytes: float, alpha_s: float, beta: float) -> float:
    """`(p - 1)(α + V / (pβ))`; an all-gather takes the same time."""
    return (dies - 1) * (alpha_s + size_bytes / (dies * beta))


def ring_all_reduce_s(dies: int, size_bytes: float, alpha_s: float, beta: float) -> float:
    """Reduce-scatter, then all-gather: `2(p - 1)(α + V / (pβ))`."""
    return 2.0 * ring_reduce_scatter_s(dies, size_bytes, alpha_s, beta)


def mesh_all_reduce_s(
    columns: int, rows: int, size_bytes: float, alpha_s: float, beta: float, directions: int = 1
) -> float:
    """Reduce-scatter in rows, all-reduce of the parts in columns, all-gather in rows.

    `2(c - 1)(α + V/(cβ)) + 2(r - 1)(α + V/(rcβ))`: the bytes of a ring over all dies with far fewer steps.
    `directions` = 2 sends half of the vector each way round.
    """
    beta = beta * directions
    in_rows = ring_all_reduce_s(columns, size_bytes, alpha_s, beta)
    return in_rows + ring_all_reduce_s(rows, size_bytes / columns, alpha_s, beta)


def tree_all_reduce_s(dies: int, size_bytes: float, alpha_s: float, beta: float) -> float:
    """Reduce to one die and broadcast by binary trees: `2⌈log2 p⌉(α + V/β)`; best for small vectors."""
    return 2.0 * math.ceil(math.log2(dies)) * (alpha_s + size_bytes / beta)


def all_reduce_s(columns: int, rows: int, size_bytes: float, alpha_s: float, beta: float) -> float:
    """The fastest of ring, mesh and tree on a grid of `columns` × `rows` dies; 0 for a single die."""
    dies = columns * rows
    if dies == 1:
        return 0.0
    return min(
        ring_all_reduce_s(dies, size_bytes, alpha_s, beta),
        mesh_all_reduce_s(columns, rows, size_bytes, alpha_s, beta),
        tree_all_reduce_s(dies, size_bytes, alpha_s, beta),
    )


def mesh_all_to_all_s(columns: int, rows: int, size_bytes: float, alpha_s: float, beta: float) -> float:
    """Every die sends `size_bytes / dies` to every other: bounded by the bisection of the longer side.

    Half of the dies send half of their bytes across `min(columns, rows)` links; `α` counts the longest path.
    """
    dies = columns * rows
    if dies == 1:
        return 0.0
    longer, shorter = max(columns, rows), min(columns, rows)
    low = longer // 2 * shorter
    crossing = low * size_bytes * (dies - low) / dies
    return (columns + rows - 2) * alpha_s + crossing / (shorter * beta)
