"""Gaussian process over the choices of a space: what a design will probably score, with its uncertainty.

The kernel is that of straight lines and parabolas in each parameter (main effects) plus a Matérn-5/2 kernel of the
distance between designs (Rasmussen and Williams 2006, ch. 4), in which each parameter counts by its main effect, as
estimated by ridge regression.  Only the length of the Matérn kernel is fitted, by the likelihood of three choices, so
that a fit costs a few factorisations of a small matrix.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hydra_dse.design.space import Parameter
from hydra_dse.search.outer import is_ordered
from hydra_dse.search.pareto import FloatArray, IntArray

_LENGTHS = (1.0, 2.0, 4.0)
_NOISE = 0.01
"""Variance of what choices do not explain, as a share of the total."""
_LINEAR = 2.0
"""Variance of the main effects, relative to that of the rest."""
_RIDGE = 1.0
"""Draws effects towards zero, as one more observation of none would."""
_LEAST_WEIGHT = 0.02
"""Of a parameter without an effect, over that of the strongest."""
_JITTER = 1e-6
"""Added to variances, so that rounding leaves them positive."""


class Encoding:
    """Columns of numbers from choices: an ordered parameter one in −1 … 1, words one each.

    Attributes:
        owner: (columns,) parameter of each column.
    """

    def __init__(self, parameters: Sequence[Parameter]) -> None:
        self._sizes = [len(parameter.choices) for parameter in parameters]
        self._ordered = [is_ordered(parameter) for parameter in parameters]
        widths = [1 if ordered else size for ordered, size in zip(self._ordered, self._sizes, strict=True)]
        self.owner: IntArray = np.repeat(np.arange(len(widths)), widths)

    def columns(self, genes: IntArray) -> FloatArray:
        """Columns (designs, columns) of indices of choices (designs, parameters); opposite ends are 2 apart."""
        made = []
        for place, (size, ordered) in enumerate(zip(self._sizes, self._ordered, strict=True)):
            index = genes[:, place]
            if ordered:
                made.append((2.0 * index / max(size - 1, 1) - 1.0)[:, None])
            else:
                made.append(np.sqrt(2.0) * (index[:, None] == np.arange(size)))
        return np.concatenate(made, axis=1)


class Gaussian:
    """The process given values of some designs.

    Args:
        encoding: of the space.
        columns: (designs, columns) of `encoding`.
        values: (designs,), finite.
    """

    def __init__(self, encoding: Encoding, columns: FloatArray, values: FloatArray) -> None:
        self._mean = float(values.mean())
        self._spread = float(values.std()) or 1.0
        self._known = columns
        y = (values - self._mean) / self._spread
        self._weights = _weights(encoding, columns, y)
        apart, main = self._distances(columns, columns), _main_covariance(columns, columns)
        best = -np.inf
        for length in _LENGTHS:
            factor = np.linalg.cholesky(_matern(apart / length) + main + _NOISE * np.eye(len(y)))
            half = _forward(factor, y)
            likelihood = -0.5 * float(half @ half) - float(np.log(np.diag(factor)).sum())
            if likelihood > best:
                best, self._length, self._factor, self._half = likelihood, length, factor, half

    def draws(self, columns: FloatArray, count: int, rng: np.random.Generator) -> FloatArray:
        """Joint draws (count, designs) of the values of other designs."""
        cross = _forward(self._factor, self._kernel(self._known, columns))
        mean = cross.T @ self._half
        rest = self._kernel(columns, columns) - cross.T @ cross
        root = np.linalg.cholesky(rest + (_JITTER + _NOISE) * np.eye(len(mean)))
        return self._mean + self._spread * (mean + rng.standard_normal((count, len(mean))) @ root.T)

    def _kernel(self, left: FloatArray, right: FloatArray) -> FloatArray:
        return _matern(self._distances(left, right) / self._length) + _main_covariance(left, right)

    def _distances(self, left: FloatArray, right: FloatArray) -> FloatArray:
        one, other = left * self._weights, right * self._weights
        squared = (one**2).sum(axis=1)[:, None] + (other**2).sum(axis=1) - 2.0 * one @ other.T
        apart: FloatArray = np.sqrt(np.maximum(squared, 0.0))
        return apart


def _forward(factor: NDArray[np.floating[Any]], right: FloatArray) -> FloatArray:
    """Solution of a lower triangular system."""
    from scipy.linalg import solve_triangular  # imported late: 7 MB and 0.1 s that only learning searches need

    solution: FloatArray = solve_triangular(factor, right, lower=True)
    return solution


def _matern(apart: FloatArray) -> FloatArray:
    """Matérn-5/2 covariance of distances in lengths."""
    scaled = np.sqrt(5.0) * apart
    covariance: FloatArray = np.exp(-scaled) * (1.0 + scaled * (1.0 + scaled / 3.0))
    return covariance


def _main_covariance(left: FloatArray, right: FloatArray) -> FloatArray:
    """Covariance of straight lines and parabolas in every column."""
    share = _LINEAR / (1.0 + 2.0 * left.shape[1])
    covariance: FloatArray = share * _main_effects(left) @ _main_effects(right).T
    return covariance


def _weights(encoding: Encoding, columns: FloatArray, values: FloatArray) -> FloatArray:
    """Weight (columns,) of each column in distances: the root of its parameter's share of the main effects."""
    effects = _main_effects(columns)
    fitted = np.linalg.solve(effects.T @ effects + _RIDGE * np.eye(effects.shape[1]), effects.T @ values)
    width = columns.shape[1]
    parts = effects[:, 1:] * fitted[1:]
    by_column = parts[:, :width] + parts[:, width:]
    spread = np.array([by_column[:, encoding.owner == one].sum(axis=1).std() for one in range(encoding.owner[-1] + 1)])
    share = spread / (spread.max() or 1.0) + _LEAST_WEIGHT
    share *= len(share) / share.sum()
    weights: FloatArray = np.sqrt(share)[encoding.owner] / 2.0  # opposite ends are 1 apart
    return weights


def _main_effects(columns: FloatArray) -> FloatArray:
    """A constant, straight lines and parabolas."""
    return np.concatenate([np.ones((len(columns), 1)), columns, columns**2 - 1.0 / 3.0], axis=1)
