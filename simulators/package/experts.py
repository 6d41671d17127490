"""Experts placed whole on dies: their time from drawn routings.

At some numbers of rows the routing is drawn token by token: each token takes the `top_k` experts whose exponential
clocks ring first, those with a copy at every die are served where the token is.  The time of a draw is that of its
busiest die, site or link; an operator takes the mean over draws, because one iteration runs its many sparse layers one
after the other, each with a routing of its own.  Between the numbers of rows the time is a straight line.
Draws are seeded by model, placement and rows: the same for every design and run.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from hydra_dse.mapping import ExpertPlacement
from hydra_dse.model.operators import Batch
from hydra_dse.model.precision import Precision
from hydra_dse.model.routing import Routing
from hydra_dse.operator_cost import DieShare, activity, compute_time_s
from hydra_dse.rng import derive
from simulators.package.coefficients import PlacedExperts, PlacedOperator

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

TOKENS_DRAWN = 16_384
"""Draws of an iteration's routing hold so many tokens together, between the two limits below."""
MOST_DRAWS, FEWEST_DRAWS = 1024, 8


def expert_bytes(placed: PlacedOperator, experts: PlacedExperts, precision: Precision, rows: FloatArray) -> FloatArray:
    """Expected bytes of weights that each die reads, resident ones included, shape (rows, dies)."""
    routing = experts.placement.routing
    one = placed.operator.weight_elements / routing.experts * precision.weight_bytes
    missed = np.ones((len(rows), len(experts.paths), 1))
    hit = (routing.inclusion[:, None] * experts.placement.served).T
    missed = (1.0 - hit) ** np.asarray(rows, dtype=np.float64)[:, None, None]
    return np.asarray(one * (1.0 - missed).sum(axis=2))


def expert_seconds(
    placed: PlacedOperator, experts: PlacedExperts, precision: Precision, link_bytes_per_s: FloatArray, rows: FloatArray
) -> FloatArray:
    """Return the time of all instances for each number of rows."""
    nodes = _nodes(int(max(rows.max(initial=1.0), 1.0)))
    seconds = [_drawn_seconds(placed, experts, precision, link_bytes_per_s, node) for node in nodes]
    longest = np.interp(rows, (0, *nodes), (0.0, *seconds))
    return placed.operator.count * (longest + np.minimum(rows, 1.0) * placed.fixed_s)


def _nodes(most: int) -> list[int]:
    """1 to 8, then three a doubling, up to the first that reaches `most`."""
    nodes = list(range(1, 9))
    while nodes[-1] < most:
        nodes.append(math.ceil(nodes[-1] * 2.0 ** (1.0 / 3.0)))
    return nodes


def _drawn_seconds(
    placed: PlacedOperator, experts: PlacedExperts, precision: Precision, link_bytes_per_s: FloatArray, rows: int
) -> float:
    """Mean over draws of the busiest resource."""
    operator, routing = placed.operator, experts.placement.routing
    read, worked = drawn(experts.placement, rows)
    one = operator.weight_elements / routing.experts * precision.weight_bytes
    moved = read * (one * placed.streamed)
    site_s = np.stack([path.site_s for path in experts.paths])
    link_s = np.stack([path.link_bytes for path in experts.paths]) / link_bytes_per_s
    per_row = sum((part.link_bytes * part.bytes_per_row for part in placed.activations), np.zeros(link_s.shape[1]))
    busiest = np.maximum((moved @ site_s).max(axis=1, initial=0.0), 0.0)
    busiest = np.maximum(busiest, (moved @ link_s + rows * per_row / link_bytes_per_s).max(axis=1, initial=0.0))
    batch = Batch(prefill_tokens=float(rows), emitted_tokens=float(rows))
    demand = operator.demand(batch, precision)
    whole = float(np.asarray(demand.weight_bytes))
    for die, rates in enumerate(experts.rates):
        share = DieShare(
            worked[:, die] / (rows * routing.top_k), parallelism="expert", weights=read[:, die] * one / whole
        )
        time = np.asarray(compute_time_s(operator, demand, batch, rates, share)) * (read[:, die] > 0)
        busiest = np.maximum(busiest, time)
    return float(busiest.mean() * float(np.asarray(activity(demand))))


def drawn(placement: ExpertPlacement, rows: int) -> tuple[FloatArray, FloatArray]:
    """Experts that each die reads and expert rows that it works on, in drawn iterations: each shape (draws, dies)."""
    served = placement.served
    return _drawn(placement.routing, served.shape, served.tobytes(), rows)


@lru_cache(maxsize=1024)
def _drawn(routing: Routing, shape: tuple[int, int], served: bytes, rows: int) -> tuple[FloatArray, FloatArray]:
    share = np.frombuffer(served).reshape(shape)
    draws = min(MOST_DRAWS, max(FEWEST_DRAWS, TOKENS_DRAWN // rows))
    rng = derive(0, "drawn routings", routing, rows)
    chosen = _choose(routing, draws * rows, rng)
    draw = np.repeat(np.arange(draws), rows)[:, None]
    die = draw * shape[1] + _dies(share, chosen, rng)
    pairs = np.zeros(draws * shape[1] * shape[0], dtype=bool)
    pairs[(die * shape[0] + chosen).ravel()] = True
    read = pairs.reshape(draws, shape[1], shape[0]).sum(axis=2, dtype=np.float64)
    worked = np.bincount(die.ravel(), minlength=draws * shape[1]).reshape(draws, shape[1]).astype(np.float64)
    return read, worked


def _choose(routing: Routing, tokens: int, rng: np.random.Generator) -> IntArray:
    """Experts of each token, shape (tokens, top_k): the first clocks to ring."""
    with np.errstate(divide="ignore"):
        rings = rng.standard_exponential((tokens, routing.experts), dtype=np.float32) / routing.popularity.astype("f4")
    return np.argpartition(rings, routing.top_k - 1, axis=1)[:, : routing.top_k]


def _dies(share: FloatArray, chosen: IntArray, rng: np.random.Generator) -> IntArray:
    """Die that serves each chosen expert; copies serve the tokens of their own die."""
    home = share.argmax(axis=1)
    dies = home[chosen]
    copied = (share > 0).sum(axis=1) > 1
    if copied.any():
        fair = share[copied][0]
        upto = np.cumsum(fair)
        own = np.minimum(np.searchsorted(upto, rng.random(len(chosen)) * upto[-1]), len(fair) - 1)
        dies = np.where(copied[chosen], own[:, None], dies)
    return np.asarray(dies)
