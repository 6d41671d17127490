"""Distribution of the time to the first token of a request."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from hydra_dse.estimator.arrays import bounded
from hydra_dse.estimator.exponential import EXPONENTIAL_POINTS, EXPONENTIAL_WEIGHTS
from hydra_dse.estimator.mixture import Mixture
from hydra_dse.estimator.prompt_waits import WAIT_WEIGHTS
from hydra_dse.estimator.stages import Entry

FloatArray = NDArray[np.float64]

RESIDUALS = np.array([1.0, 3.0, 5.0]) / 6.0
"""Middles of three equal parts of a running iteration."""
RAMP = (np.arange(10) + 0.5) / 10.0
"""Middles of ten equal parts of a backlog that grows evenly."""


def ttft_spread(entry: Entry) -> Mixture:
    """Not blocked: no wait or a slice of it, beside each batch; blocked: an exponential wait on the mean one."""
    n, j, bins = len(entry.waits), entry.waits.shape[1], len(entry.own_bins.weight)
    idle = 1 if entry.residual_s is None else len(RESIDUALS)
    held_back = entry.held is not None and entry.held_s is not None
    late_points = len(EXPONENTIAL_WEIGHTS) + (len(RAMP) if held_back else 0)
    points = _Points(n, bins * (j * (4 * idle + 2 * entry.wait_s.shape[2]) + late_points))
    _met_empty(entry, points)
    _met_work(entry, points)
    waits = EXPONENTIAL_POINTS if entry.blocked_points is None else entry.blocked_points
    held = (entry.blocked_s / np.maximum(entry.blocked, 1e-12))[:, None] * waits
    own = (entry.own_s * entry.beside[:, :, None]).sum(axis=1)
    by_size = 1.0 if entry.blocked_order is None else entry.blocked_order[:, None, :]
    value, weight = points.take(len(EXPONENTIAL_WEIGHTS), bins)
    value[...] = (entry.mean_wait_s[:, None] + held)[:, :, None] * by_size + own[:, None, :]
    weight[...] = (entry.blocked[:, None] * EXPONENTIAL_WEIGHTS)[:, :, None] * entry.own_bins.weight
    if entry.held is not None and entry.held_s is not None:
        points.weight *= (1.0 - entry.held)[:, None]
        value, weight = points.take(len(RAMP), bins)
        uniform = 2.0 * RAMP * (entry.held_s / np.maximum(entry.held, 1e-12))[:, None]
        value[...] = (entry.mean_wait_s + entry.blocked_s)[:, None, None] + uniform[:, :, None] + own[:, None, :]
        weight[...] = entry.held[:, None, None] / len(RAMP) * entry.own_bins.weight
    return Mixture(points.value, points.weight)


class _Points:
    """Room for all points of `n` mixtures: what is written once need not be joined."""

    def __init__(self, n: int, size: int) -> None:
        self.value, self.weight = np.empty((n, size)), np.zeros((n, size))
        self._start = 0

    def take(self, *shape: int) -> tuple[FloatArray, FloatArray]:
        """The next points and their weights, of shape (n, *shape), to be written."""
        stop = self._start + math.prod(shape)
        where, n = slice(self._start, stop), len(self.value)
        self._start = stop
        return self.value[:, where].reshape(n, *shape), self.weight[:, where].reshape(n, *shape)


def _met_empty(entry: Entry, points: _Points) -> None:
    """Write points of TTFT of those that find no prompts ahead: without and with some behind.

    Without a wait to smooth it the distribution is that of the sizes: two points for each slice of them.
    """
    n, j = entry.waits.shape
    idle = np.zeros((n, j, 1)) if entry.residual_s is None else _rests(entry.residual_s, entry.running)
    share = (1.0 - entry.blocked)[:, None] * entry.beside * (1.0 - entry.waits) * 0.5 / idle.shape[2]
    weight = np.broadcast_to(share[:, :, None], idle.shape)[..., None] * entry.own_bins.weight
    company = entry.behind_lone
    chance = company.chance[:, :, None]
    gap = bounded(entry.own_bins.spread_of(entry.own_s), 0.0, entry.own_s)
    for own in (entry.own_s - gap, entry.own_s + gap):
        lone, lone_weight = points.take(*weight.shape[1:])
        np.add(idle[..., None], own[:, :, None], out=lone)
        np.multiply(weight, 1.0 - chance, out=lone_weight)
        met, met_weight = points.take(*weight.shape[1:])
        np.add(lone, company.extra_s[:, :, None], out=met)
        np.multiply(weight, chance, out=met_weight)


def _rests(mean_s: FloatArray, running: FloatArray | None) -> FloatArray:
    """Means of three equal parts of what is left of a running iteration, (n, j, 3).

    A share of `running` finds an evenly spread rest, the others none; all of them together have the mean.
    """
    if running is None:
        return np.asarray(mean_s[:, :, None] * 2.0 * RESIDUALS)
    share = np.maximum(running, 1e-12)[:, :, None]
    edges = np.maximum(np.arange(len(RESIDUALS) + 1) / len(RESIDUALS) - 1.0 + share, 0.0)
    parts = np.diff(edges**2, axis=2) / share**2
    return np.asarray(mean_s[:, :, None] * len(RESIDUALS) * parts)


def _met_work(entry: Entry, points: _Points) -> None:
    """Write those of those that wait for prompts ahead."""
    share = (1.0 - entry.blocked)[:, None] * entry.beside * entry.waits
    weight = (share[:, :, None] * WAIT_WEIGHTS)[..., None] * entry.own_bins.weight
    wait = entry.wait_s[..., None]
    if entry.order is not None:
        wait = wait * entry.order[:, :, None]
    company = entry.behind
    lone, lone_weight = points.take(*weight.shape[1:])
    np.add(wait, entry.own_s[:, :, None], out=lone)
    np.multiply(weight, 1.0 - company.chance, out=lone_weight)
    met, met_weight = points.take(*weight.shape[1:])
    np.add(lone, company.extra_s, out=met)
    np.multiply(weight, company.chance, out=met_weight)
