"""How many tokens a decode step of a sequence emits, and how many positions it computes.

A speculative step computes the last token and the drafted ones in one pass and emits those that are accepted and one
more (Leviathan et al., arXiv 2211.17192 §3); heads for several tokens do the same (arXiv 2401.10774).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

from hydra_dse.errors import InputError

MOST_TOKENS = 64
TOLERANCE = 1e-6


@dataclass(frozen=True)
class Emission:
    """Tokens of one decode step of one sequence, drawn anew for every step.

    Attributes:
        probabilities: of emitting 1, 2, … tokens.
        positions: computed per sequence and step, whatever is accepted.
    """

    probabilities: tuple[float, ...] = (1.0,)
    positions: int = 1

    @property
    def single(self) -> bool:
        """Whether every step emits exactly one token."""
        return len(self.probabilities) == 1

    @property
    def mean(self) -> float:
        """Mean tokens of a step."""
        return math.fsum(tokens * share for tokens, share in enumerate(self.probabilities, 1))

    @property
    def mean_square(self) -> float:
        """Mean square of the tokens of a step."""
        return math.fsum(tokens * tokens * share for tokens, share in enumerate(self.probabilities, 1))


ONE_TOKEN = Emission()


@lru_cache(maxsize=256)
def emission_of(probabilities: tuple[float, ...], verified_positions: int | None) -> Emission:
    """Return the emission that a policy states.

    Raises:
        InputError: with the key and what would be accepted.
    """
    fault = probabilities_fault(probabilities)
    if fault is not None:
        raise InputError(f"tokens_per_step: {fault}")
    fault = positions_fault(probabilities, verified_positions)
    if fault is not None:
        raise InputError(f"verified_positions: {fault}")
    return Emission(tuple(probabilities), verified_positions or len(probabilities))


def probabilities_fault(probabilities: tuple[float, ...]) -> str | None:
    """What is wrong with the probabilities of 1, 2, … tokens; None = nothing."""
    if not 1 <= len(probabilities) <= MOST_TOKENS:
        return f"needs the probabilities of 1 to at most {MOST_TOKENS} tokens, got {len(probabilities)} values"
    wrong = [share for share in probabilities if not 0.0 <= share <= 1.0]
    if wrong:
        return f"{wrong[0]!r} is not a probability; give values between 0 and 1"
    total = math.fsum(probabilities)
    if abs(total - 1.0) > TOLERANCE:
        return f"the probabilities of 1, 2, … tokens sum to {total:g}; they must sum to 1"
    if len(probabilities) > 1 and probabilities[-1] == 0.0:
        return "the last probability is 0; leave it out, and state verified_positions where more are computed"
    return None


def positions_fault(probabilities: tuple[float, ...], verified_positions: int | None) -> str | None:
    """What is wrong with the positions of a step; None = nothing."""
    if verified_positions is not None and verified_positions < len(probabilities):
        return (
            f"{verified_positions} positions cannot emit up to {len(probabilities)} tokens; "
            f"give at least {len(probabilities)}, or leave it out"
        )
    return None
