"""A lower bound of the smooth objective after every swap, from the busiest links of each part alone.

The 8-norm of some of the link loads is at most that of all, and a swap that lowers the norm relieves links that are busy
now.  So the loads after every swap are counted on the busiest links only, beside their mean, which is the load of one
more link that a path takes as often as it has hops, over the number of links.  What the bound does not rule out is
counted in full (`hydra_dse.placement.refine`): few swaps of hundreds.

For one part with `K[i, j, l]` = 1 where the path from the slot of `i` to that of `j` takes link `l`,
`P[i, j, l] = Σ_k t_ik K[j, k, l] + t_ki K[k, j, l]` is what component `i` would put on link `l` from the slot of `j`.
Swapping `i` and `j` changes the load of link `l` by

    P[i, j, l] + P[j, i, l] - P[i, i, l] - P[j, j, l] + (t_ij + t_ji) · (K[i, j, l] + K[j, i, l]),

so the loads after all swaps are sums of rows of `P` and `K`.  (Links come last so that rows are copied whole, into arrays
that stay; products are cut so that none is large enough for BLAS to start threads, which costs more than it gains here.)
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hydra_dse.placement.problem import WORST_LINK_WEIGHT, IntArray

Float32Array = NDArray[np.float32]

BUSIEST = 16
"""Links of each part that are counted."""
_ALONE = 200_000
"""Multiplications that BLAS makes on one thread."""


class Bounds:
    """Lower bounds of the objective after each swap of `first[m]` and `second[m]`.

    Args:
        shares: traffic, shape (parts, components, components).
        first: one component of each swap.
        second: the other.
        links: number of links, at least one.
    """

    def __init__(self, shares: Float32Array, first: IntArray, second: IntArray, links: int) -> None:
        parts, count, _ = shares.shape
        turned, columns = shares.swapaxes(1, 2), min(BUSIEST, links) + 1
        self._shares = np.concatenate((shares, turned), axis=2)
        self._exchanged = (shares + turned)[:, first, second, None]
        self._there, self._back = first * count + second, second * count + first
        self._own = first * (count + 1), second * (count + 1)
        # `K` of the columns that are looked at: paths to every component above, paths from it below.
        self._looked = np.empty((parts, 2 * count, count, columns), dtype=np.float32)
        self._moved = np.empty((parts, count, count, columns), dtype=np.float32)
        self._sum, self._part = np.empty((2, parts, len(first), columns), dtype=np.float32)

    def after(self, paths: Float32Array, loads: Float32Array) -> Float32Array:
        """Bounds of the smooth objective, shape (swaps,), up to rounding.

        Args:
            paths: `K` of the module and, last, hops over the number of links, shape (components, components, links + 1).
            loads: present loads of each part, shape (parts, links).
        """
        links = loads.shape[1]
        busiest = loads.argpartition(links - self._sum.shape[2] + 1, axis=1)[:, 1 - self._sum.shape[2] :]
        found = self._changes(paths, busiest, links)
        power = found[:, :, :-1]
        power += np.take_along_axis(loads, busiest, axis=1)[:, None]
        for _ in range(3):
            np.square(power, out=power)
        norm = np.sqrt(np.sqrt(np.sqrt(np.add.reduce(power, axis=-1))))
        mean = found[:, :, -1] + np.add.reduce(loads, axis=1)[:, None] / links
        bounds: Float32Array = np.add.reduce(mean + WORST_LINK_WEIGHT * norm, axis=0)
        return bounds

    def _changes(self, paths: Float32Array, busiest: IntArray, links: int) -> Float32Array:
        """Change of the load of the busiest links and, last, of the mean load, shape (parts, swaps, columns)."""
        parts, _, count, columns = self._looked.shape
        for looked, some in zip(self._looked, busiest, strict=True):
            paths.reshape(count * count, -1).take((*some, links), 1, looked[count:].reshape(-1, columns), "clip")
        self._looked[:, :count] = self._looked[:, count:].swapaxes(1, 2)
        self._multiply(self._looked.reshape(parts, 2 * count, -1), self._moved.reshape(parts, count, -1))
        rows, moved = (table.reshape(parts, -1, columns) for table in (self._looked, self._moved))
        found, part = self._sum, self._part
        rows.take(self._there, 1, found, "clip")
        found += rows.take(self._back, 1, part, "clip")
        found *= self._exchanged
        found += moved.take(self._there, 1, part, "clip")
        found += moved.take(self._back, 1, part, "clip")
        for own in self._own:
            found -= moved.take(own, 1, part, "clip")
        return found

    def _multiply(self, looked: Float32Array, moved: Float32Array) -> None:
        step = max(1, _ALONE // self._shares[0].size)
        for first in range(0, looked.shape[2], step):
            some = slice(first, first + step)
            np.matmul(self._shares, looked[:, :, some], out=moved[:, :, some])
