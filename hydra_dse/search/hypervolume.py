"""Exact hypervolume: the volume that a front dominates below a reference point.

Losses, smaller is better.  Two objectives: area under a staircase.  More: slices along the last objective,
each with the hypervolume of one objective less (hypervolume by slicing objectives; While et al., IEEE Trans.
Evol. Comput. 10(1), 2006).  Exact in any dimension; O(n²) for three objectives, n times more for each further.
"""

from __future__ import annotations

import numpy as np

from hydra_dse.search.pareto import FloatArray, nondominated

MARGIN = 0.1
"""Share of the extent of known losses by which a reference point lies beyond the worst of them (a convention)."""


def reference_beyond(worst: FloatArray, extent: FloatArray) -> FloatArray:
    """A reference point that leaves the ends of a front a volume.

    Args:
        worst: largest loss of each objective, shape (objectives,).
        extent: largest less smallest, shape (objectives,); where it is zero it counts as one.
    """
    return np.asarray(worst + MARGIN * np.where(extent > 0, extent, 1.0))


def hypervolume_reference(losses: FloatArray, reference: FloatArray) -> float:
    """The definition: every cell of the grid through all coordinates that some point dominates."""
    inside = losses[np.all(losses < reference, axis=1)]
    if len(inside) == 0:
        return 0.0
    axes = [np.unique(np.append(column, bound)) for column, bound in zip(inside.T, reference, strict=True)]
    corners = np.stack(np.meshgrid(*(axis[:-1] for axis in axes), indexing="ij"), axis=-1)
    sizes = np.stack(np.meshgrid(*(np.diff(axis) for axis in axes), indexing="ij"), axis=-1)
    covered = np.any(np.all(inside[:, *(None,) * len(axes), :] <= corners, axis=-1), axis=0)
    return float(np.sum(np.prod(sizes, axis=-1) * covered))


def hypervolume(losses: FloatArray, reference: FloatArray) -> float:
    """Volume dominated by `losses` (points, objectives) and bounded by `reference`.

    Points that do not lie strictly below the reference in every objective count nothing.
    """
    inside = losses[np.all(losses < reference, axis=1)]
    if len(inside) == 0:
        return 0.0
    inside = inside[nondominated(inside)]
    return _slices(inside[np.lexsort(inside.T[::-1])], reference)


def _slices(points: FloatArray, reference: FloatArray) -> float:
    """Hypervolume of points sorted by the first objective, all below the reference."""
    if points.shape[1] == 1:
        return float(reference[0] - points[:, 0].min())
    if points.shape[1] == 2:
        return _staircase(points, reference)
    levels = np.unique(points[:, -1])
    thickness = np.diff(np.append(levels, reference[-1]))
    slices = (
        float(thick) * _slices(points[points[:, -1] <= level, :-1], reference[:-1])
        for level, thick in zip(levels, thickness, strict=True)
    )
    return sum(slices)


def _staircase(points: FloatArray, reference: FloatArray) -> float:
    """Area of points sorted by the first objective: between two steps the lowest second value so far counts."""
    widths = np.diff(np.append(points[:, 0], reference[0]))
    heights = reference[1] - np.minimum.accumulate(points[:, 1])
    return float(np.sum(widths * heights))
