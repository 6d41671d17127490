"""How many experts each die reads and how many expert rows it works on, as quantiles.

With `T` rows an expert held by one die is read with probability `p_e = 1 − (1 − q_e)^T`, so a die reads a
Poisson-binomial number of them.  Tokens choose a fixed number of experts, so the total over all dies varies less than
if dies were independent: its variance follows from the probability that neither of two experts is read,
`(1 − q_e − q_f + q_ef)^T`, with `q_ef` in proportion to `q_e q_f` and summing to `top_k (top_k − 1)`.  A total is taken
as normal, and the dies as independent given the total, drawn one after another by their conditional distribution.
Copies of an expert are read by the dies at which tokens that use it are.  Expert rows are about normal and rise with
the experts read.

The quantiles form a Latin hypercube over the total and all dies (McKay, Beckman and Conover, Technometrics 1979).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from hydra_dse.mapping import ExpertPlacement
from hydra_dse.rng import derive

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

POINTS = 256
MOST_COPIED = 16
"""More replicated experts than this are taken at their mean."""
FEW_TOKENS = 16
"""Up to so many tokens are dealt to the dies one by one."""

_KNOWN: OrderedDict[object, tuple[FloatArray, FloatArray]] = OrderedDict()
_KNOWN_SIZE = 64


def loads_of(experts: ExpertPlacement, tokens: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Quantiles of the experts that each die reads and of its expert rows, each shape (tokens, POINTS, dies)."""
    key = (experts.routing, experts.served.shape, experts.served.tobytes(), tokens.tobytes())
    if key not in _KNOWN:
        _KNOWN[key] = _Quantiles(experts, tokens).loads()
        if len(_KNOWN) > _KNOWN_SIZE:
            _KNOWN.popitem(last=False)
    return _KNOWN[key]


class _Quantiles:
    """The quantiles of one placement of experts."""

    def __init__(self, experts: ExpertPlacement, tokens: FloatArray) -> None:
        self.experts, self.tokens, self.routing = experts, tokens, experts.routing
        self.dies = len(experts.share)
        self.rng = derive(0, "loads of experts", self.dies)
        self.single = np.setdiff1d(np.arange(self.routing.experts), np.array(experts.replicated, dtype=np.int64))
        self.home = experts.served.argmax(axis=1)

    def column(self) -> FloatArray:
        """One coordinate of the hypercube, shape (POINTS,)."""
        return np.asarray((self.rng.permutation(POINTS) + 0.5) / POINTS)

    def loads(self) -> tuple[FloatArray, FloatArray]:
        """Experts read and expert rows."""
        columns = [self.column() for _ in range(self.dies)]
        read = self._singles(columns) + self._copies()
        mean = self.experts.load_share * self.routing.top_k
        # Expert rows of a token on a die: hypergeometric variance, as of experts drawn without replacement.
        left = (self.routing.experts - self.routing.top_k) / max(self.routing.experts - 1, 1)
        variance = mean * (1.0 - mean / self.routing.top_k) * left
        normal = np.stack([_normal(column) for column in columns], axis=1)
        tokens = self.tokens[:, None, None]
        rows = mean * tokens + np.sqrt(variance * tokens) * normal
        return read, np.where(read > 0, np.maximum(rows, read), 0.0)

    def _singles(self, columns: Sequence[FloatArray]) -> FloatArray:
        """Experts held by one die that each die reads."""
        hit = self.routing.inclusion[self.single]
        touched = 1.0 - (1.0 - hit) ** self.tokens[:, None]
        counts = [_poisson_binomial(touched[:, self.home[self.single] == die]) for die in range(self.dies)]
        rest = [np.ones((len(self.tokens), 1))]
        for count in reversed(counts[1:]):
            rest.append(_convolved(rest[-1], count))
        rest.reverse()
        left = self._totals(touched, hit)
        read = np.zeros((len(self.tokens), POINTS, self.dies))
        for die, (count, after) in enumerate(zip(counts, rest, strict=True)):
            read[:, :, die] = _conditional(count, after, left, columns[die])
            left = left - read[:, :, die].astype(np.int64)
        return read

    def _totals(self, touched: FloatArray, hit: FloatArray) -> IntArray:
        """Quantiles of the number of experts read by all dies, shape (tokens, POINTS)."""
        top_k = self.routing.top_k
        together = top_k**2 - float((self.routing.inclusion**2).sum())
        joint = np.minimum(np.outer(hit, hit) * (top_k * (top_k - 1) / together), np.minimum.outer(hit, hit))
        neither = np.clip(1.0 - hit[:, None] - hit + joint, 0.0, 1.0)
        np.fill_diagonal(neither, 0.0)
        missed = 1.0 - touched
        pairs = np.array([float((neither**count).sum()) for count in self.tokens])
        variance = (touched * missed).sum(axis=1) + pairs - (missed.sum(axis=1) ** 2 - (missed**2).sum(axis=1))
        spread = np.sqrt(np.maximum(variance, 0.0))[:, None] * _normal(self.column())
        total = np.rint(touched.sum(axis=1)[:, None] + spread).astype(np.int64)
        # A token reads top_k different experts, so no total is below that unless some are replicated.
        least = max(top_k - len(self.experts.replicated), 0)
        return np.asarray(np.clip(total, min(least, len(hit)), int((hit > 0).sum())), dtype=np.int64)

    def _copies(self) -> FloatArray:
        """Replicated experts that each die reads for the tokens that are there."""
        copied = list(self.experts.replicated)
        read = np.zeros((len(self.tokens), POINTS, self.dies))
        if not copied:
            return read
        hit, share = self.routing.inclusion[copied], self.experts.share
        upto = np.cumsum(share)
        # The same coordinates for every number of tokens, so that a result does not depend on what else is asked for.
        deals = [self.column() for _ in range(FEW_TOKENS)]
        at_most = np.stack([self.column() for _ in range(self.dies)], axis=1).reshape(-1, 1)
        for number, count in enumerate(self.tokens.tolist()):
            here = np.broadcast_to(count * share, (POINTS, self.dies))
            if count <= FEW_TOKENS:
                at = [np.searchsorted(upto, deal * upto[-1]) for deal in deals[: int(count)]]
                here = sum((np.minimum(one, self.dies - 1)[:, None] == np.arange(self.dies) for one in at), np.zeros(1))
            touched = 1.0 - (1.0 - hit) ** here[..., None]
            if len(copied) > MOST_COPIED:
                read[number] = touched.sum(axis=-1)
                continue
            below = _poisson_binomial(touched.reshape(-1, len(copied))).cumsum(axis=1)
            read[number] = (below[:, :-1] < at_most).sum(axis=1).reshape(POINTS, self.dies)
        return read


def _normal(at: FloatArray) -> FloatArray:
    return np.array([NormalDist().inv_cdf(float(u)) for u in at])


def _poisson_binomial(probabilities: FloatArray) -> FloatArray:
    """Distribution of the number of events, shape (rows, events + 1), for probabilities (rows, events)."""
    count = np.zeros((len(probabilities), probabilities.shape[1] + 1))
    count[:, 0] = 1.0
    for event in range(probabilities.shape[1]):
        moved = count * probabilities[:, event, None]
        count -= moved
        count[:, 1:] += moved[:, :-1]
    return count


def _convolved(first: FloatArray, second: FloatArray) -> FloatArray:
    """Distribution of the sum of two counts, row by row."""
    both = np.zeros((len(first), first.shape[1] + second.shape[1] - 1))
    for number in range(second.shape[1]):
        both[:, number : number + first.shape[1]] += first * second[:, number, None]
    return both


def _conditional(count: FloatArray, after: FloatArray, left: IntArray, at: FloatArray) -> FloatArray:
    """Quantile of a count given the total that it and what comes after must reach.

    Args:
        count: distribution, shape (tokens, values).
        after: distribution of the sum of all later counts, shape (tokens, sums).
        left: total, shape (tokens, points).
        at: probabilities, shape (points,).
    """
    value = np.arange(count.shape[1])
    rest = left[:, :, None] - value
    inside = (rest >= 0) & (rest < after.shape[1])
    chance = after[np.arange(len(after))[:, None, None], np.clip(rest, 0, after.shape[1] - 1)] * inside
    upto = (count[:, None, :] * chance + 1e-250 * inside).cumsum(axis=2)
    return np.asarray((upto < at[None, :, None] * upto[..., -1:]).sum(axis=2), dtype=np.float64)
