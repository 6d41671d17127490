"""Saturation rate: the highest rate that two pools in tandem, or one pool, complete for ever.

Disaggregated: a chain on the sequences beyond prefill.  Prefill, which always has prompts, gives birth at its packed
rate until `places` finished prompts wait for a decode slot and it pauses; decode completes them.  The rates of both
depend on the level through the batch and through what the pools take from each other's memory and links.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hydra_dse.estimator.arrays import known, side_by_side
from hydra_dse.estimator.nodes import BatchNodes, gather

FloatArray = NDArray[np.float64]


def tandem_saturation(
    nodes: BatchNodes,
    birth: FloatArray,
    residence_s: FloatArray,
    paused_s: FloatArray,
    limit: FloatArray,
    places: FloatArray,
    spread: float,
) -> FloatArray:
    """Completions per second, shape (n,).

    Args:
        nodes: batch nodes of the decode pool.
        birth: prompts per second beside each batch, shape (n, k + 1), column 0 beside an empty decode pool.
        residence_s: time in decode beside a running prefill pool, shape (n, k).
        paused_s: the same beside a paused one, at the limit, shape (n,).
        limit: decoding sequences at most.
        places: finished prompts that may wait.
        spread: peakedness of the number in decode.
    """
    limit = known(limit, 1.0)  # of a design that cannot serve: its times are NaN and so is its result
    places = known(places)
    whole = np.floor(limit + 1e-9)
    length = int(whole.max())
    levels = np.arange(1.0, length + 1.0)
    births = side_by_side(birth[:, :1], nodes.at_levels(birth[:, 1:], length))
    deaths = levels / nodes.times_at_levels(residence_s, length)
    # Peaked weights `Π(λ/μ)^(1/z)` have a mean beyond that of `z = 1` by (z − 1)/2: deaths are met that much higher.
    met = deaths * (1.0 + (spread - 1.0) / (2.0 * levels))
    log_ratio = (np.log(births[:, :-1]) - np.log(met)) / spread
    none = np.zeros((len(limit), 1))
    log_weight = side_by_side(none, np.cumsum(log_ratio, axis=1))
    # Below the limit prefill runs; at it, only with a place to wait.
    last = gather(log_weight, whole[:, None].astype(np.int64))[:, 0]
    level = np.arange(length + 1.0)
    log_weight = np.where(level < whole[:, None], log_weight, -np.inf)
    top = limit / nodes.time_at_each(residence_s, limit)
    birth_top = nodes.at_each(birth[:, 1:], limit)
    with np.errstate(divide="ignore"):
        at_limit = last + np.log(np.minimum(places, 1.0))
    queue = last + _log_geometric(np.log(birth_top / top), np.maximum(places - 1.0, 0.0))
    all_logs = side_by_side(log_weight, at_limit[:, None], queue[:, None])
    weight = np.exp(all_logs - all_logs.max(axis=1, keepdims=True))
    born = (weight * side_by_side(births, birth_top[:, None], birth_top[:, None])).sum(axis=1)
    died = (weight * side_by_side(none, deaths, top[:, None], top[:, None])).sum(axis=1)
    closed = np.maximum(born - died, 0.0) * paused_s / limit
    return np.asarray(born / (weight.sum(axis=1) + closed))


def _log_geometric(log_g: FloatArray, count: FloatArray) -> FloatArray:
    """`log Σ_{j=1}^{count} g^j` without overflow; −inf for count 0."""
    away = np.where(np.abs(log_g) < 1e-9, 1e-9, log_g)
    size = np.abs(away)
    # Σ g^j = g^m·(1 − e^{−count·size})/(1 − e^{−size}) with m the largest exponent.
    largest = np.where(away > 0, away * count, away)
    with np.errstate(divide="ignore"):
        return np.asarray(largest + np.log(-np.expm1(-count * size)) - np.log(-np.expm1(-size)))
