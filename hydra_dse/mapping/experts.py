"""Experts placed whole on dies: who serves which tokens, and where the weights lie.

An expert has one home die (round robin in the order of the experts, or the most popular first to the least loaded
die); its weights lie in the sites that feed this die.  The `replicated` most popular experts have a copy at every die,
which serves the tokens that are there already.  A token at die `i` goes once to every other die that holds at least one
of its experts (dispatch), which returns one weighted sum (combine).

With `q_e` the probability that a token uses expert `e` and `s_ej` the share of its tokens that die `j` serves, die `j`
works on `Σ_e q_e s_ej` of `top_k` expert rows per token and reads `Σ_e 1 − (1 − q_e s_ej)^T` experts for `T` tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from hydra_dse.model.routing import Routing

FloatArray = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class ExpertPlacement:
    """The experts of a mixture on the dies of a group.

    Attributes:
        share: what each die would do if all were even, shape (dies,); sums to 1.
        served: share of an expert's tokens that each die serves, shape (experts, dies); rows sum to 1.
        fetch: bytes from each site per byte of expert weights that a die reads, shape (sites, dies); columns sum to 1.
        replicated: experts with a copy at every die.
    """

    routing: Routing
    share: FloatArray
    served: FloatArray
    fetch: FloatArray
    replicated: tuple[int, ...] = ()

    @cached_property
    def load_share(self) -> FloatArray:
        """Expected share of the expert rows that each die works on, shape (dies,); sums to 1."""
        rows = self.routing.inclusion @ self.served
        return np.asarray(rows / rows.sum())

    @property
    def imbalance(self) -> float:
        """Expected work of the most loaded die over its fair share."""
        return float((self.load_share / self.share).max())

    @property
    def copies(self) -> float:
        """Experts held over experts there are."""
        return float((self.served > 0).sum()) / self.routing.experts

    def distinct(self, tokens: FloatArray | float) -> FloatArray:
        """Expected experts that each die reads for `tokens` tokens, shape (..., dies)."""
        count = np.asarray(tokens, dtype=np.float64)[..., None]
        hit = self.routing.inclusion[:, None] * self.served
        read = [(1.0 - (1.0 - hit[:, die][hit[:, die] > 0]) ** count).sum(axis=-1) for die in range(len(self.share))]
        return np.stack(read, axis=-1)

    def weight_fetch(self, tokens: float) -> FloatArray:
        """Bytes from each site to each die per byte of the distinct experts that `tokens` tokens touch.

        Shape (sites, dies); sums to the copies streamed, 1 where no expert is replicated.
        """
        tokens = max(tokens, 1e-6)
        return np.asarray(self.fetch * (self.distinct(tokens) / float(self.routing.distinct(tokens))))

    @cached_property
    def visits(self) -> FloatArray:
        """Probability that a token goes to each die for an expert that only it holds, shape (dies,)."""
        home = self.served.argmax(axis=1)
        home[list(self.replicated)] = -1
        found = self.routing.hits(home)
        return np.concatenate((found, np.zeros(len(self.share) - len(found))))

    @cached_property
    def replicated_hit(self) -> float:
        """Probability that a token uses a replicated expert at all."""
        if not self.replicated:
            return 0.0
        member = np.full(self.routing.experts, -1)
        member[list(self.replicated)] = 0
        return float(self.routing.hits(member)[0])


def place_experts(
    routing: Routing, share: FloatArray, feed: FloatArray, algorithm: str, replicated: int
) -> ExpertPlacement:
    """Deal the experts of a mixture to dies.

    Args:
        routing: popularity of the experts.
        share: fair share of each die, shape (dies,).
        feed: bytes from each site to each die per byte of an operand held once, shape (sites, dies).
        algorithm: `"round_robin"` or `"popularity"`.
        replicated: how many of the most popular experts have a copy at every die.
    """
    order = np.argsort(-routing.inclusion, kind="stable").tolist()
    copied = tuple(sorted(order[: min(replicated, routing.experts)]))
    single = [expert for expert in range(routing.experts) if expert not in copied]
    places = _places(share, len(single))
    if algorithm == "popularity":
        homes = _least_loaded([expert for expert in order if expert not in copied], routing.inclusion, share, places)
    else:
        homes = _in_turn(single, places)
    served = np.zeros((routing.experts, len(share)))
    for expert, die in homes.items():
        served[expert, die] = 1.0
    served[list(copied)] = share
    return ExpertPlacement(routing, share, served, _per_die(feed), copied)


def read_elsewhere(placement: ExpertPlacement, homes: ExpertPlacement) -> ExpertPlacement:
    """The same experts read from where another pool keeps them.

    What a die reads is spread over the sites as the experts it serves are on average.
    """
    lies = homes.served @ homes.fetch.T
    held = (placement.served > 0).astype(np.float64)
    count = np.maximum(held.sum(axis=0), 1.0)
    fetch = (lies.T @ held) / count
    fetch[:, held.sum(axis=0) == 0] = homes.fetch.mean(axis=1, keepdims=True)
    return ExpertPlacement(placement.routing, placement.share, placement.served, fetch, placement.replicated)


def stored_shares(placement: ExpertPlacement) -> FloatArray:
    """Bytes held in each site per byte of all experts held once, shape (sites,); sums to `copies`."""
    held = (placement.served > 0).sum(axis=0) / placement.routing.experts
    return np.asarray(placement.fetch @ held)


def _per_die(feed: FloatArray) -> FloatArray:
    """Where the bytes of one die lie, shape (sites, dies)."""
    total = feed.sum(axis=0)
    even = np.broadcast_to(feed.sum(axis=1, keepdims=True), feed.shape)
    return np.asarray(np.where(total > 0, feed / np.where(total > 0, total, 1.0), even))


def _places(share: FloatArray, experts: int) -> list[int]:
    """Experts that each die may hold: in proportion to its share, what is left over by largest remainder."""
    exact = share * experts
    places = np.floor(exact + 1e-9).astype(int)
    for die in np.argsort(-(exact - places), kind="stable")[: experts - int(places.sum())].tolist():
        places[die] += 1
    return [int(place) for place in places]


def _in_turn(experts: Sequence[int], places: Sequence[int]) -> dict[int, int]:
    left, homes, die = list(places), {}, 0
    for expert in experts:
        while left[die % len(left)] == 0:
            die += 1
        homes[expert] = die % len(left)
        left[die % len(left)] -= 1
        die += 1
    return homes


def _least_loaded(
    experts: Sequence[int], popularity: FloatArray, share: FloatArray, places: Sequence[int]
) -> dict[int, int]:
    left, homes, load = list(places), {}, [0.0] * len(places)
    for expert in experts:
        open_dies = [die for die in range(len(left)) if left[die] > 0]
        die = min(open_dies, key=lambda number: (load[number] + popularity[expert]) / share[number])
        homes[expert] = die
        left[die] -= 1
        load[die] += float(popularity[expert])
    return homes
