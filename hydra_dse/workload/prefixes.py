"""What requests have in common: shared system prompts, and sessions whose turns repeat their history.

A request's tokens are cut into blocks of `block_tokens`.  A block id names its tokens together with all tokens before
them, so that two requests share a prefix exactly as far as their leading ids are equal.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from hydra_dse.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import NDArray

FloatArray: TypeAlias = "NDArray[np.float64]"

MAX_TURNS = 1000


@dataclass(frozen=True)
class Think:
    """Time between the end of a turn and the arrival of the next: gamma, by mean and coefficient of variation."""

    mean_s: float = 0.0
    cv: float = 1.0

    def sample(self, count: int, rng: np.random.Generator) -> FloatArray:
        """Times in s."""
        if self.mean_s <= 0.0 or self.cv <= 0.0:
            return np.full(count, self.mean_s)
        shape = 1.0 / self.cv**2
        return np.asarray(rng.gamma(shape, self.mean_s / shape, count))


@dataclass(frozen=True)
class Prefixes:
    """Prefix structure of sampled requests.

    A session has one system prompt, one class and several turns.  The prompt of a turn is the system prompt, all
    prompts and outputs of the turns before it, and tokens of its own (drawn from the lengths of the class).

    Attributes:
        block_tokens: tokens of a block id.
        system_tokens: length of each system prompt; empty = none.
        popularity: share of the sessions of each; sums to 1.
        turns: probability of 1, 2, … turns in a session; sums to 1.
        think: between turns.
    """

    block_tokens: int = 16
    system_tokens: tuple[int, ...] = ()
    popularity: tuple[float, ...] = ()
    turns: tuple[float, ...] = (1.0,)
    think: Think = Think()

    def __post_init__(self) -> None:
        if self.block_tokens < 1:
            raise InputError(f"a prefix block has at least one token, got {self.block_tokens}")
        if len(self.popularity) != len(self.system_tokens) or any(tokens < 1 for tokens in self.system_tokens):
            raise InputError("system prompts need a length of at least one token and a popularity each")
        for name, shares in (("popularity", self.popularity or (1.0,)), ("turns", self.turns)):
            if min(shares) < 0 or abs(sum(shares) - 1.0) > 1e-9:
                raise InputError(f"shares of {name} must not be negative and sum to 1, got {sum(shares):g}")

    @property
    def mean_turns(self) -> float:
        """Mean turns of a session."""
        return float(np.dot(self.turns, np.arange(1, len(self.turns) + 1)))


def zipf(count: int, exponent: float) -> tuple[float, ...]:
    """Shares proportional to `rank^−exponent`; equal for 0."""
    weight = np.arange(1, count + 1, dtype=np.float64) ** -exponent
    return tuple((weight / weight.sum()).tolist())


def geometric_turns(mean: float, most: int) -> tuple[float, ...]:
    """Turns `1 … most` with ratio `q` between successive probabilities such that the mean holds.

    Raises:
        InputError: no ratio below 1 gives the mean.
    """
    if not 1.0 <= mean <= (most + 1) / 2:
        raise InputError(
            f"falling shares of 1 to {most} turns have a mean from 1 to {(most + 1) / 2:g}, got {mean:g}; "
            "raise the maximum, or give one number of turns"
        )
    turns, low, high = np.arange(1, most + 1), 0.0, 1.0
    for _ in range(80):
        ratio = (low + high) / 2.0
        weight = ratio ** (turns - 1.0)
        if float(weight @ turns / weight.sum()) < mean:
            low = ratio
        else:
            high = ratio
    weight = high ** (turns - 1.0)
    return tuple((weight / weight.sum()).tolist())
