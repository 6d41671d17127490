"""Packages as the stages of a pipeline: each holds the weights and the caches of its own blocks in its own memory.

Stage `k` keeps the shares `f_k` of the KV, `g_k` of the recurrent state and its part of the weights.  Where blocks of
one kind are dealt unevenly these differ, and a package may fill before the others: what all of them hold together is
bounded by the one with the least room for its larger share, `min_k room_k / max(f_k, g_k)`, whatever the mix of KV
and state.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from hydra_dse.design.nouns import Design
from hydra_dse.hardware.fabric import part_of_component
from hydra_dse.mapping.nouns import MemorySite
from hydra_dse.mapping.operands import Operands
from hydra_dse.mapping.stages import stages_of
from hydra_dse.model import kv_bytes_per_token, state_bytes_per_sequence

FloatArray = NDArray[np.float64]


def staged(design: Design) -> bool:
    """Whether the packages of a design are the stages of a pipeline."""
    return design.mapping.pipeline > 1 and bool(design.package.parts)


def stage_site_shares(design: Design, sites: Sequence[MemorySite]) -> tuple[FloatArray, ...]:
    """Share of each site in what a stage keeps in memory, by stage; a site without bandwidth has none."""
    part_of = part_of_component(design.package)
    at = np.array([part_of[site.component] for site in sites], dtype=np.int64)
    bandwidth = np.array([site.bandwidth_bytes_per_s for site in sites], dtype=np.float64)
    found = []
    for stage in range(design.mapping.pipeline):
        mine = np.where(at == stage, bandwidth, 0.0)
        found.append(mine / mine.sum() if mine.sum() > 0 else mine)
    return tuple(found)


@lru_cache(maxsize=256)
def stage_shares(operands: Operands, degree: int) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Weight bytes of each stage, and its shares of KV and of state, shape (degree,) each.

    Parameters that two stages use (a tied head, blocks that share weights) are held by both.
    """
    weights = [
        sum(max(one.weight_copies, 1) * one.weight_elements for one in mine) * operands.precision.weight_bytes
        for mine in stages_of(operands, degree)
    ]
    caches = np.zeros((2, degree))
    model = operands.model
    if model is not None:
        for stage, blocks in enumerate(np.array_split(np.arange(len(model.blocks)), degree)):
            part = replace(model, blocks=tuple(model.blocks[block] for block in blocks.tolist()))
            caches[0, stage] = kv_bytes_per_token(part, operands.precision)
            caches[1, stage] = state_bytes_per_sequence(part, operands.precision)
    shares = caches / np.maximum(caches.sum(axis=1, keepdims=True), 1e-300)
    return np.array(weights), shares[0], shares[1]


def staged_weights(design: Design, operands: Operands, sites: Sequence[MemorySite]) -> FloatArray:
    """Weight bytes in each site."""
    weights, _, _ = stage_shares(operands, design.mapping.pipeline)
    return np.asarray(weights @ np.stack(stage_site_shares(design, sites)))


def staged_cache_shares(design: Design, operands: Operands, sites: Sequence[MemorySite]) -> FloatArray:
    """The larger of the shares of KV and of state that lies in each site; sums to 1 where both are dealt alike."""
    _, kv, state = stage_shares(operands, design.mapping.pipeline)
    return np.asarray(np.maximum(kv, state) @ np.stack(stage_site_shares(design, sites)))
