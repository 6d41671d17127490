"""A lower bound of the smooth objective after every swap, from the busiest links of each part alone.

The 8-norm of some of the link loads is at most that of all, and a swap that lowers the norm relieves links that are
busy now.  So the loads after every swap are counted on the busiest links only, beside the mean of all, which is the
load of one link more that a path takes as often as it has hops, over the number of links.  What the bound does not rule
out is counted in full (`hydra_dse.placement.refine`): few swaps of hundreds.

For one part with `K[i, j, l]` = 1 where the path from the slot of `i` to that of `j` takes link `l`,
`P[i, j, l] = Σ_k t_ik K[j, k, l] + t_ki K[k, j, l]` is what component `i` would put on link `l` from the slot of `j`.
It changes the load by `C[i, j, l] = P[i, j, l] - P[i, i, l] + (t_ij + t_ji) K[i, j, l]` where it goes there and `j`
comes in return, so that swapping both changes it by `C[i, j, l] + C[j, i, l]`.

Links come last so that rows are copied whole, into arrays that stay; products are cut so that none is large enough for
BLAS to start threads, which costs more than it gains here.
"""

from __future__ import annotations

import numpy as np

from hydra_dse.placement.problem import WORST_LINK_WEIGHT, FloatArray, IntArray
from hydra_dse.placement.swaps import Float32Array, Swaps, norm

BUSIEST = 16
"""Links of each part that are counted."""
_ALONE = 200_000
"""Multiplications that BLAS makes on one thread."""


class Bounds:
    """Lower bounds of the objective after each of some swaps.

    Args:
        swaps: of a problem.
        links: their number.
    """

    def __init__(self, swaps: Swaps, links: int) -> None:
        shares, first, second = swaps.shares, swaps.first, swaps.second
        parts, count, _ = shares.shape
        turned, self._busiest = shares.swapaxes(1, 2), min(BUSIEST, links)
        width = self._busiest + 1
        self._shares = np.concatenate((shares, turned), axis=2)
        self._exchanged = (shares + turned)[:, :, :, None]
        self._there, self._back = first * count + second, second * count + first
        self._parts = np.arange(parts)[:, None]
        # `K` of the columns that are looked at, both ways: to every component above, from it below.
        self._looked = np.empty((parts, 2 * count, count, width), dtype=np.float32)
        self._moved, self._change = np.empty((2, parts, count, count, width), dtype=np.float32)
        self._sum, self._part = np.empty((2, parts, len(first), width), dtype=np.float32)

    def after(self, ways: Float32Array, hops: FloatArray, loads: Float32Array) -> Float32Array:
        """Bounds of the smooth objective, shape (swaps,), up to rounding.

        Args:
            ways: `K[i, j, l]` and, behind it, `K[j, i, l]`, shape (components, 2 · components, links).
            hops: links of the path from one component to another, shape (components, components).
            loads: present loads of each part, shape (parts, links).
        """
        links, number = loads.shape[1], self._busiest
        columns = np.zeros((len(loads), number + 1), dtype=np.int64)
        columns[:, :-1] = loads.argpartition(links - number, axis=1)[:, links - number :]
        self._look(ways, columns, hops / links)
        after = self._changes()
        now = loads[self._parts, columns]
        now[:, -1] = np.add.reduce(loads, axis=1) / links
        after += now[:, None]
        worst = norm(after[:, :, :-1], self._part[:, :, :-1])
        bounds: Float32Array = np.add.reduce(after[:, :, -1] + WORST_LINK_WEIGHT * worst, axis=0)
        return bounds

    def _look(self, ways: Float32Array, columns: IntArray, last: FloatArray) -> None:
        """Paths by some links of each part; the last column is another."""
        count, width = self._looked.shape[2:]
        paths = np.ascontiguousarray(ways[:, :count]).reshape(count * count, -1)
        for looked, some in zip(self._looked, columns, strict=True):
            paths.take(some, 1, looked[count:].reshape(-1, width), "clip")
        self._looked[:, count:, :, -1] = last
        self._looked[:, :count] = self._looked[:, count:].swapaxes(1, 2)

    def _changes(self) -> Float32Array:
        """Change of what is looked at by every swap, shape (parts, swaps, columns)."""
        parts, _, count, width = self._looked.shape
        self._multiply(self._looked.reshape(parts, 2 * count, -1), self._moved.reshape(parts, count, -1))
        change = np.multiply(self._looked[:, count:], self._exchanged, out=self._change)
        change += self._moved
        change -= self._moved.reshape(parts, -1, width)[:, :: count + 1, None]
        rows = change.reshape(parts, -1, width)
        found: Float32Array = rows.take(self._there, 1, self._sum, "clip")
        found += rows.take(self._back, 1, self._part, "clip")
        return found

    def _multiply(self, looked: Float32Array, moved: Float32Array) -> None:
        step = max(1, _ALONE // self._shares[0].size)
        for first in range(0, looked.shape[2], step):
            some = slice(first, first + step)
            np.matmul(self._shares, looked[:, :, some], out=moved[:, :, some])
