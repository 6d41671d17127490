"""Decode iterations as a staircase of the batch: dies that work on tiles of rows run the last tile padded.

Between nodes of the batch times are straight lines; with tiles of `t` rows the time of a decode iteration steps up
behind every multiple of `t`.  Asked for at both ends of every tile it is known at every level.  `BatchNodes` keeps the
ratio of that to its straight lines; chains take it level by level.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hydra_dse.estimator.iteration import decode_batch
from hydra_dse.estimator.lengths import LengthMoments
from hydra_dse.estimator.nodes import COUNT, HEAD, BatchNodes, gather
from hydra_dse.profile.nouns import PoolModel, ServiceProfile

FloatArray = NDArray[np.float64]

MOST = 16
"""Tiles whose ends are asked for; of a larger batch several tiles together, a straight line through their steps."""


def with_stairs(
    nodes: BatchNodes, profile: ServiceProfile, pool: str, step_s: FloatArray, lengths: LengthMoments
) -> BatchNodes:
    """The nodes with the staircase of the pool's decode iterations, where it has any.

    Args:
        nodes: batches of which `step_s` are the times, shape (n, k).
        profile: names the tiles of its pools.
        pool: that decodes.
        step_s: decode iterations at the nodes, shape (n, k).
        lengths: of the requests.
    """
    tile = profile.row_tiles.get(pool)
    if tile is None:
        return nodes
    top = nodes.batch[:, -1]
    uneven = (tile > 1.0) & (top > COUNT) & (top > tile)
    if not uneven.any():
        return nodes
    return nodes.with_ratio(_ratio(nodes, profile.pools[pool], step_s, tile, uneven, lengths))


def _ratio(
    nodes: BatchNodes,
    pool: PoolModel,
    step_s: FloatArray,
    tile: FloatArray,
    uneven: NDArray[np.bool_],
    lengths: LengthMoments,
) -> FloatArray:
    """Time over that of the straight lines at the levels 1…L, shape (n, L)."""
    top = np.where(np.isfinite(nodes.batch[:, -1]), nodes.batch[:, -1], 1.0)
    width = np.where(uneven, tile * np.ceil(top / (tile * MOST)), top)[:, None]
    count = int(np.ceil(top[:, None] / width).max())
    start = np.arange(count) * width
    first, last = np.minimum(start + 1.0, top[:, None]), np.minimum(start + width, top[:, None])
    times = np.asarray(pool.time_s(decode_batch(np.hstack((first, last)), lengths)), dtype=float)
    most = int(top.max())
    levels = np.broadcast_to(np.arange(1.0, most + 1.0), (len(top), most))
    at = np.minimum((levels - 1.0) // width, count - 1.0).astype(np.int64)
    near, far = gather(times[:, :count], at), gather(times[:, count:], at)
    begin, end = gather(first, at), gather(last, at)
    # The first sequences are nodes: engines that share a pool, and experts, bend the time among them.
    head = np.minimum(float(HEAD), top)[:, None]
    first_tile = (at == 0) & (levels >= head) & (end > head)
    near, begin = np.where(first_tile, step_s[:, HEAD - 1, None], near), np.where(first_tile, head, begin)
    share = np.clip((levels - begin) / np.maximum(end - begin, 1.0), 0.0, 1.0)
    found = (near + share * (far - near)) / nodes.at_levels(step_s, levels.shape[1])
    known = uneven[:, None] & (levels > head) & (levels <= top[:, None]) & np.isfinite(found)
    return np.where(known, found, 1.0)
