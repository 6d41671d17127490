"""When two models that take turns have work: chains on the number of requests of both.

Models that slow each other have work at the same time more often than by chance, and the more of its requests a model
serves at once, the likelier so.  A pool that decodes is a birth–death process `n/S` per model with `S` the mean stay:
`S⁰ = L⁰/λ` while the other model has none there, `S¹ = L¹/λ` beside it, `L` the mean number that the model's own chain
gives if the other never, or always, had work.  A prompt queue serves one after the other: four states, where model `k`
runs out of work at rate `λ(1 − q)/q`, `q` its busy share in these two cases; for equal speeds that is the exact
two-class M/M/1 with processor sharing.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]

MOST = 9
"""Requests of one model that the chain tells apart; with more the other one sees it busy all the time anyway."""
BLOCK = 64
"""Designs solved together, so that their matrices stay in cache."""
LEAST = 1e-9
"""Of rates and shares, so that none divides by zero."""


def decoding(
    rates: tuple[FloatArray, FloatArray], alone: tuple[FloatArray, FloatArray], beside: tuple[FloatArray, FloatArray]
) -> FloatArray:
    """Probabilities of the numbers of both models' requests, shape (n, MOST + 1, MOST + 1).

    Args:
        rates: arrivals per second.
        alone: mean number if the other never had work.
        beside: mean number if the other always had some.
    """
    ends = [
        [rate / np.maximum(number, LEAST) for number in (own, np.maximum(more, own))]
        for rate, own, more in zip(rates, alone, beside, strict=True)
    ]
    level = np.arange(MOST + 1.0)
    return _solved(rates, ends, level)


def prompting(
    rates: tuple[FloatArray, FloatArray], alone: tuple[FloatArray, FloatArray], beside: tuple[FloatArray, FloatArray]
) -> FloatArray:
    """Probabilities of both having work or not, shape (n, 2, 2).

    Args:
        rates: arrivals per second.
        alone: share of time with work if the other never had any.
        beside: share of time with work if the other always had some.
    """
    ends = []
    for rate, own, more in zip(rates, alone, beside, strict=True):
        shares = [np.clip(share, LEAST, 1.0 - 1e-6) for share in (own, np.maximum(more, own))]
        ends.append([rate * (1.0 - share) / share for share in shares])
    return _solved(rates, ends, np.arange(2.0))


def _solved(rates: tuple[FloatArray, FloatArray], ends: list[list[FloatArray]], level: FloatArray) -> FloatArray:
    """The stationary chain: births at `rates`, deaths `level·ends` by whether the other is there."""
    found = [
        _block(tuple(rate[part] for rate in rates), [[end[part] for end in own] for own in ends], level)
        for part in np.array_split(np.arange(len(rates[0])), max(1, -(-len(rates[0]) // BLOCK)))
    ]
    return np.concatenate(found)


def _block(rates: tuple[FloatArray, ...], ends: list[list[FloatArray]], level: FloatArray) -> FloatArray:
    count, size = len(rates[0]), len(level)
    number = np.arange(size * size).reshape(size, size)
    moves = np.zeros((count, size * size, size * size))
    for model, (rate, (free, slow)) in enumerate(zip(rates, ends, strict=True)):
        at = number if model == 0 else number.T
        moves[:, at[:-1], at[1:]] = rate[:, None, None]
        there = np.arange(size) > 0
        each = np.where(there, slow[:, None], free[:, None])
        moves[:, at[1:], at[:-1]] = level[1:, None] * each[:, None, :]
    scale = np.maximum(moves.sum(axis=2).max(axis=1), 1e-300)
    moves = moves / scale[:, None, None]
    diagonal = np.arange(size * size)
    moves[:, diagonal, diagonal] -= moves.sum(axis=2)
    balance = np.swapaxes(moves, 1, 2).copy()
    balance[:, 0, :] = 1.0
    known = np.zeros((count, size * size, 1))
    known[:, 0] = 1.0
    solved = np.linalg.solve(balance, known)[:, :, 0]
    return np.asarray(np.clip(solved, 0.0, 1.0).reshape(count, size, size))


def seen(joint: FloatArray, first: bool) -> FloatArray:
    """Share of time in which the other model has work, by the number of requests of this one, shape (n, m)."""
    table = joint if first else np.swapaxes(joint, 1, 2)
    return np.asarray(table[:, :, 1:].sum(axis=2) / np.maximum(table.sum(axis=2), 1e-300))


def at_level(shares: FloatArray, level: FloatArray) -> FloatArray:
    """Interpolate shares by number, shape (n, m), at numbers of shape (n, …); beyond the last it is the last."""
    top = shares.shape[1] - 1
    place = np.clip(np.nan_to_num(level), 0.0, top)
    left = np.minimum(place.astype(np.int64), top - 1) if top > 0 else place.astype(np.int64)
    flat = left.reshape(len(left), -1)
    low = np.take_along_axis(shares, flat, axis=1).reshape(left.shape)
    high = np.take_along_axis(shares, np.minimum(flat + 1, top), axis=1).reshape(left.shape)
    return np.asarray(low + (place - left) * (high - low))
