"""Designs of a profile grouped by the hardware that is evaluated together."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hydra_dse.profile.block import PoolBlock
from hydra_dse.profile.hardware import HardwareTable
from hydra_dse.profile.pools import Members

IntArray = NDArray[np.int64]


def members_of(table: HardwareTable, index: IntArray, pool: int) -> list[Members]:
    """A block for each group of hardware that is evaluated together, with its designs."""
    lowered = table.pools[pool] if pool < len(table.pools) else []
    tables = [one.table for mine in table.pools for one in mine]
    links = max((one.link_s.shape[2] for one in tables), default=1)
    sites = max((one.site_s.shape[2] for one in tables), default=1)
    members = []
    for one in lowered:
        row_of = np.full(len(table.entries), -1, dtype=np.int64)
        row_of[one.entries] = np.arange(len(one.entries))
        rows = row_of[index]
        designs = np.flatnonzero(rows >= 0)
        precision = table.entries[one.entries[0]].precision
        members.append(Members(designs, rows[designs], PoolBlock(one.table, precision, links, sites)))
    return members
