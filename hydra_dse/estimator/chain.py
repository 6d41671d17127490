"""Birth–death chains in logarithms, and the chain of a pool that serves up to a limit of sequences.

Stationary weights of a birth–death chain are `w_l = Π λ_{i−1}/μ_i`; they are summed as logarithms, so that any
length and any load is safe from overflow.  Beyond its last level a chain may go on with a constant ratio; that tail
is summed in closed form.

A pool in which `l` sequences take `residence(l)` seconds each is processor sharing up to its limit: there
`μ_l = l/residence(l)` is insensitive to the distribution of work (Baskett et al. 1975; Zhang, Dai, Zwart 2011 for
the limit).  Beyond the limit the queue is first come, first served: its probability is that of the exponential
chain, and its length is scaled by `(c_a² + c_s²)/2` (Pollaczek–Khinchine for one server, Allen–Cunneen for several),
c_s² as it shows through several places (Kimura 1986).  The limit of processor sharing has the same queue: given that
all places are taken, remaining work is distributed alike in both.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from hydra_dse.estimator.arrays import bounded
from hydra_dse.estimator.nodes import BatchNodes, gather
from hydra_dse.estimator.transient import critical, settled_load

FloatArray = NDArray[np.float64]

BUCKETS = (8, 16, 32, 64, 128, 256, 512, 1024)


@dataclass(frozen=True)
class Stationary:
    """Probabilities of levels 0…L, shape (n, L+1), and of everything beyond level L, shape (n,)."""

    levels: FloatArray
    beyond: FloatArray


def birth_death(
    log_ratio: FloatArray, tail_ratio: FloatArray | None = None, last: NDArray[np.int64] | None = None
) -> Stationary:
    """Solve chains with `log_ratio[:, l] = log(λ_l / μ_{l+1})` for l = 0…L−1.

    Args:
        log_ratio: shape (n, L); −inf closes a chain.
        tail_ratio: λ/μ of all levels beyond the last open one, in [0, 1), shape (n,); None = the chain ends there.
        last: the last open level where chains differ in length, shape (n, 1); None = L.
    """
    log_weight = np.zeros((len(log_ratio), log_ratio.shape[1] + 1))
    np.cumsum(log_ratio, axis=1, out=log_weight[:, 1:])
    log_weight -= log_weight.max(axis=1, keepdims=True)
    weight = np.exp(log_weight)
    end = weight[:, -1] if last is None else gather(weight, last)[:, 0]
    tail = np.zeros(len(weight)) if tail_ratio is None else end * tail_ratio / (1.0 - tail_ratio)
    total = weight.sum(axis=1) + tail
    return Stationary(weight / total[:, None], tail / total)


@dataclass(frozen=True)
class Burstiness:
    """Variability of a pool, each of shape (n,); 1 for exponential work and Poisson arrivals, where nothing is common.

    Attributes:
        spread: peakedness of the number in service below the limit.
        arrival: `c_a²` of the gaps.
        blocking: `(c_a² + 1)/2`, scales the probability to queue.
        service: `c_s²` of the work that a place does by itself.
        common: share of a full pool's time in which it stands for the work of one request.
        common_scv: `c²` of that work.
        within: `spread` of the arrivals of one phase, where they come in phases; None = they do not.
    """

    spread: FloatArray
    arrival: FloatArray
    blocking: FloatArray
    service: FloatArray
    common: FloatArray
    common_scv: FloatArray
    within: FloatArray | None = None

    def wait(self, servers: FloatArray, load: FloatArray) -> FloatArray:
        """`(c_a² + c_s²)/2`, which scales the length of the queue.

        Between two departures of a full pool come work of the places and work in common, of which the latter is
        whole: the squared coefficient of variation of their sum is that of its parts, weighted by squared shares.
        """
        own = service_seen(self.service, servers, load)
        service = (1.0 - self.common) ** 2 * own + self.common**2 * self.common_scv
        return np.maximum((self.arrival + service) / 2.0, 1e-3)


def service_seen(scv: FloatArray, servers: FloatArray, load: FloatArray) -> FloatArray:
    """`c²` with which work shows in the queue before several servers, `2·Q(M/G/s)/Q(M/M/s) − 1`.

    The mean queue is Kimura's (1986) interpolation between those of M/M/s and M/D/s, the latter Cosmetatos' (1976):
    `Q(M/D/s) = (1 + ξ)/2·Q(M/M/s)`.  One server: `scv` itself.  As many servers as make queues rare: 1, since the
    departures of many are Poisson; ξ ends there.
    """
    rho = bounded(load, 1e-9, 1.0)
    s = np.maximum(servers, 1.0)
    several = (1.0 - rho) * (s - 1.0) * (np.sqrt(4.0 + 5.0 * s) - 2.0) / (16.0 * rho * s)
    fixed = 2.0 / (1.0 + np.minimum(several, 1.0))
    return np.asarray(2.0 * (1.0 + scv) / (2.0 * scv + (1.0 - scv) * fixed) - 1.0)


def peaked(burst: Burstiness, dispersion: FloatArray) -> Burstiness:
    """A pool whose arrivals are known by the dispersion of their counts in a life, which is their peakedness."""
    return replace(
        burst,
        spread=np.maximum(dispersion, 0.1),
        arrival=dispersion,
        blocking=np.maximum((dispersion + 1.0) / 2.0, 0.3),
    )


@dataclass(frozen=True)
class PoolState:
    """Stationary state of pools, first axis n.

    Attributes:
        at_nodes: probabilities projected on batch nodes, shape (n, k + 1); column 0 is the empty pool.
        full: probability that the limit is reached or exceeded.
        load: offered over highest rate of the pool.
        queue_ratio: ratio `r` of the geometric tail of the queue, `ρ^(1/v)`.
        queues: probability that a full pool has a queue, such that the mean queue is that of Allen–Cunneen.
        in_service: mean number in service.
        met_full: probability that an arrival finds the limit reached, where it differs from `full`; None = the same.
        stairs: mean ratio of decode iterations around each node to the time there, shape (n, k); None = 1.
    """

    at_nodes: FloatArray
    full: FloatArray
    load: FloatArray
    queue_ratio: FloatArray
    queues: FloatArray
    in_service: FloatArray
    stairs: FloatArray | None = field(default=None, kw_only=True)
    met_full: FloatArray | None = field(default=None, kw_only=True)

    def stepped(self, times: FloatArray) -> FloatArray:
        """Decode iterations at the nodes, (n, k), as means over the levels around them."""
        return times if self.stairs is None else times * self.stairs

    def beyond(self, places: FloatArray) -> FloatArray:
        """Mean number waiting beyond the first `places` waiting places, `E[(q − places)⁺]`."""
        r = self.queue_ratio
        return np.asarray(self.full * self.queues * r**places / (1.0 - r))

    def exceeds(self, places: FloatArray) -> FloatArray:
        """Probability of `places` or more waiting, which is what an arrival beyond them sees."""
        tail = self.queues * self.queue_ratio ** np.maximum(places - 1.0, 0.0)
        full = self.full if self.met_full is None else self.met_full
        return np.asarray(full * np.where(places > 0, tail, 1.0))


def limited_sharing(
    rate: FloatArray,
    nodes: BatchNodes,
    residence_s: FloatArray,
    limit: FloatArray,
    burst: Burstiness,
    load: FloatArray | None = None,
    offered: FloatArray | None = None,
    horizon_per_s: float = 0.0,
) -> PoolState:
    """Solve the chain of each pool.

    Args:
        rate: arrivals per second, shape (n,).
        nodes: batch nodes of the pools.
        residence_s: time in service at each batch node, shape (n, k).
        limit: sequences in service at most, shape (n,); may be fractional (a mean over memory states).
        burst: variability factors.
        load: offered over highest rate where something else bounds it too; None = `rate·residence(limit)/limit`.
        offered: arrivals per second where more arrive than `rate`, which is served; None = the same.
        horizon_per_s: the queue is seen at an exponential time of this rate after an empty start (`settled_load`).
    """
    n = len(rate)
    whole = np.floor(limit + 1e-9)
    whole = np.where(np.isnan(whole), 1.0, whole)
    if load is None:
        load = rate * nodes.time_at_each(residence_s, limit) / limit
    if horizon_per_s > 0.0:
        each = load / rate
        load = critical(load if offered is None else offered * each)
        load = settled_load(load, 2.0 * burst.wait(limit, load) * load * each, horizon_per_s)
    at_nodes = np.zeros((n, nodes.count + 1))
    full, in_service = np.zeros(n), np.zeros(n)
    stairs = None if nodes.ratio is None else np.ones_like(nodes.batch)
    for rows, length in buckets(whole):
        levels = np.arange(1.0, length + 1.0)
        part = nodes.take(rows)
        time = part.times_at_levels(residence_s[rows], length)
        last = whole[rows, None].astype(np.int64)
        log_ratio = (np.log(rate[rows])[:, None] + np.log(time / levels)) / burst.spread[rows, None]
        log_ratio = np.where(levels <= last, log_ratio, -np.inf)
        tail_ratio = np.minimum(load[rows], 1.0 - 1e-9) ** (1.0 / burst.blocking[rows])
        solved = birth_death(log_ratio, tail_ratio, last)
        probability = solved.levels
        at_nodes[rows] = part.project(probability, solved.beyond, limit[rows])
        if stairs is not None and part.ratio is not None:
            stairs[rows] = part.mean_ratio(probability, solved.beyond, limit[rows], at_nodes[rows])
        full[rows] = gather(probability, last)[:, 0] + solved.beyond
        in_service[rows] = probability[:, 1:] @ levels + solved.beyond * limit[rows]
    steady = bounded(load, 1e-9, 1.0 - 1e-9)
    wait = burst.wait(limit, steady)
    ratio = steady ** (1.0 / wait)
    queues = np.minimum(wait * steady / (1.0 - steady) * (1.0 - ratio), 1.0)
    return PoolState(at_nodes, full, load, ratio, queues, in_service, stairs=stairs)


def buckets(limit: FloatArray) -> list[tuple[NDArray[np.int64] | slice, int]]:
    """Group designs by chain length, so that short chains do not pay for long ones."""
    longest = int(max(limit.max(), 1.0))
    if len(limit) == 1:
        return [(slice(None), longest)]
    edges = [size for size in BUCKETS if size < longest] + [longest]
    which = np.searchsorted(np.asarray(edges), limit)
    found = [(np.flatnonzero(which == i), edge) for i, edge in enumerate(edges)]
    return [(rows, edge) for rows, edge in found if len(rows)]
