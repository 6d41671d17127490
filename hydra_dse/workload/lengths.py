"""Joint distributions of prompt and output lengths: two marginals with a correlation, or recorded rows."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from hydra_dse.errors import InputError
from hydra_dse.workload.marginals import Constant, Marginal
from hydra_dse.workload.nouns import FloatArray, IntArray, LengthPoints
from hydra_dse.workload.points import bin_means, output_means, product_points, thin
from hydra_dse.workload.replay import digest


def fixed(prompt_tokens: int, output_tokens: int) -> JointLengths:
    """Every request alike."""
    return JointLengths(Constant(prompt_tokens), Constant(output_tokens))


@dataclass(frozen=True)
class JointLengths:
    """Prompt and output lengths by their marginals, joined by a Gaussian copula.

    Attributes:
        prompt, output: the marginals.
        correlation: of the normal variables behind both lengths; 0 = independent.
    """

    prompt: Marginal
    output: Marginal
    correlation: float = 0.0

    def __post_init__(self) -> None:
        if not -1 < self.correlation < 1:
            raise InputError(f"a correlation must lie between -1 and 1, got {self.correlation!r}")

    def sample(self, count: int, rng: np.random.Generator) -> tuple[IntArray, IntArray]:
        """Pairs rounded to whole tokens."""
        first, second = self._uniforms(count, rng)
        return _whole(self.prompt.inverse(first)), _whole(self.output.inverse(second))

    def _uniforms(self, count: int, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
        if self.correlation == 0:
            uniform = rng.random((2, count))
            return uniform[0], uniform[1]
        from scipy.special import ndtr  # imported late: 0.3 s that most commands do not need

        normal = rng.standard_normal((2, count))
        other = self.correlation * normal[0] + np.sqrt(1 - self.correlation**2) * normal[1]
        return np.asarray(ndtr(normal[0])), np.asarray(ndtr(other))

    def points(self) -> LengthPoints:
        """Means of probability bins, finer toward the tail and for the shortest outputs, with the copula's weights."""
        prompt, output = bin_means(self.prompt.inverse), output_means(self.output.inverse)
        return product_points(prompt, output, self.correlation)


@dataclass(frozen=True)
class Empirical:
    """Recorded pairs, drawn with replacement.

    Attributes:
        prompt_tokens, output_tokens: one entry per row.
        name: digest of the rows; two records are equal where it is.
    """

    prompt_tokens: IntArray = field(compare=False, repr=False)
    output_tokens: IntArray = field(compare=False, repr=False)
    name: str = ""

    def __post_init__(self) -> None:
        prompt, output = self.prompt_tokens, self.output_tokens
        if len(prompt) == 0 or len(prompt) != len(output):
            raise InputError(f"empirical lengths need one or more pairs, got {len(prompt)} and {len(output)} values")
        if min(prompt.min(), output.min()) < 1:
            raise InputError("empirical lengths must be at least 1 token")
        object.__setattr__(self, "name", digest(prompt, output))

    def sample(self, count: int, rng: np.random.Generator) -> tuple[IntArray, IntArray]:
        """Rows drawn with replacement."""
        row = rng.integers(len(self.prompt_tokens), size=count)
        return self.prompt_tokens[row], self.output_tokens[row]

    def points(self) -> LengthPoints:
        """Distinct rows with their shares; cells of neighbouring rows where there are many."""
        pairs, count = np.unique(np.stack([self.prompt_tokens, self.output_tokens]), axis=1, return_counts=True)
        prompt, output = pairs.astype(np.float64)
        return thin(LengthPoints(prompt, output, count / count.sum()))


def _whole(tokens: FloatArray) -> IntArray:
    return np.maximum(np.rint(tokens), 1.0).astype(np.int64)
