"""What a request passes: the stage from its arrival to its first token, and that from there to its last."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from hydra_dse.estimator.chain import PoolState
from hydra_dse.estimator.company import Company
from hydra_dse.estimator.exponential import EXPONENTIAL_POINTS, EXPONENTIAL_WEIGHTS
from hydra_dse.estimator.lengths import Bins
from hydra_dse.estimator.mixture import Mixture
from hydra_dse.estimator.transient import Transient

FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class Entry:
    """From arrival to the first token, beside each of j decode batches.

    Attributes:
        own_s: a prompt of each size alone, shape (n, j, bins); own_bins: the sizes.
        waits: probability to wait for work ahead, (n, j); wait_s: slices of that wait, (n, j, slices).
        behind: prompts packed behind one that waits, (n, j, slices, bins); behind_lone: behind others, (n, j, bins).
        beside: probability of each batch, (n, j).
        mean_wait_s: mean of both waits and the residual over all requests, (n,).
        residual_s: mean rest of a running iteration, for one who finds no prompts ahead, (n, j); None = none.
        running: share of those who find one running, (n, j); None = all.
        blocked: probability to be held back by a full pool, (n,); blocked_s: mean of that over all requests.
        held: share of requests that meet a fluid backlog; held_s: mean wait for it over all requests; None = none.
        order: waits of each size relative to `wait_s`, (n, j, bins), blocked_order: to that for a full pool, (n, bins);
            None = all sizes wait alike.
        blocked_points: waits for a full pool over their mean, (n, slices); None = exponential.
    """

    own_s: FloatArray
    own_bins: Bins
    waits: FloatArray
    wait_s: FloatArray
    behind: Company
    behind_lone: Company
    beside: FloatArray
    mean_wait_s: FloatArray
    residual_s: FloatArray | None
    blocked: FloatArray
    blocked_s: FloatArray
    held: FloatArray | None = None
    held_s: FloatArray | None = None
    order: FloatArray | None = None
    blocked_order: FloatArray | None = None
    blocked_points: FloatArray | None = None
    running: FloatArray | None = None

    @property
    def mean_own_s(self) -> FloatArray:
        """Mean time of a prompt alone, shape (n,)."""
        return np.asarray(((self.own_s @ self.own_bins.weight) * self.beside).sum(axis=1))


@dataclass(frozen=True)
class Stall:
    """Prompts that a request leaves behind, or that follow it in its burst: they delay its first tokens.

    Attributes:
        share: of requests that meet any, shape (n,); mean_s: their mean delay, were the request long enough, (n,).
        variance: of it over requests, s², (n,).
        cap_s: most that they delay one token, (n,).
        spared_s: mean delay that a long request is spared, where fewer prompts come than at random times, (n,).
        usual_s: mean delay by prompts per step, (n,).
    """

    share: FloatArray
    mean_s: FloatArray
    variance: FloatArray
    cap_s: FloatArray
    spared_s: FloatArray
    usual_s: FloatArray

    def points(self, size: FloatArray) -> FloatArray:
        """Slices of the delay of requests of each size, (n, bins, slices): exponential, at most `cap_s` a token."""
        slices = (self.mean_s[:, None] * EXPONENTIAL_POINTS)[:, None, :]
        return np.minimum(slices, (self.cap_s[:, None] * size)[:, :, None])

    def by_size(self, size: FloatArray) -> FloatArray:
        """Mean delay of all requests of each size, (n, bins); less than none where fewer prompts come."""
        more = self.share[:, None] * (self.points(size) @ EXPONENTIAL_WEIGHTS)
        spared = self.spared_s[:, None]
        usual = self.usual_s[:, None] * size
        return np.asarray(more + spared * np.expm1(-usual / np.maximum(spared, 1e-300)))

    def mean_of(self, bins: Bins) -> FloatArray:
        """Mean delay of all requests, (n,)."""
        return np.asarray(self.by_size(bins.size) @ bins.weight)


@dataclass(frozen=True)
class Stream:
    """From the first token to the last.

    Attributes:
        joining_per_s: requests that start to decode.
        state: of the pool; batch, step_s: decoding sequences and mean iteration time at its nodes, (n, k).
        extra_s: part of the step that prompts cause, at each node.
        extra_square: variance per time of their delays, `λ·E[e²]` where prompts come at random, (n,).
        gaps: gaps between tokens inside the decode phase.
        full: probability to wait for a slot; slot_s: mean of that wait over all requests that decode.
        longest_s: bound of its mean; leaving_s, leaving_scv: time from one that leaves a full pool to the next.
        moved_s: mean time to move and to join.
        moved_by_inverse_s: the same as the mean time per token counts it, where it depends on the prompt; None = alike.
        stall: by prompts that follow; None = none.
    """

    joining_per_s: FloatArray
    state: PoolState
    batch: FloatArray
    step_s: FloatArray
    extra_s: FloatArray
    extra_square: FloatArray
    gaps: Mixture
    full: FloatArray
    slot_s: FloatArray
    longest_s: FloatArray
    leaving_s: FloatArray
    leaving_scv: FloatArray
    moved_s: FloatArray
    stall: Stall | None = None
    moved_by_inverse_s: FloatArray | None = None


def held_back(entry: Entry, transient: Transient) -> Entry:
    """An entry with the fluid that a full pool holds back, by Little's law over the arrivals."""
    return replace(entry, held=transient.held_share, held_s=transient.held / transient.offered)


def parked(stream: Stream, transient: Transient, share: float) -> Stream:
    """A stream with the fluid that waits for slots; `share` of the requests decode."""
    more = transient.parked / (transient.offered * share)
    longest = stream.longest_s + 2.0 * more
    full = np.where(more > 0, np.maximum(stream.full, np.minimum(transient.held_share, 1.0)), stream.full)
    return replace(stream, slot_s=stream.slot_s + more, longest_s=longest, full=full)
