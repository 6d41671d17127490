"""Plain forms of NumPy functions whose own checks take longer than a few hundred numbers do.

One design alone is some thousand operations on short arrays: there `np.clip`, `np.hstack` and `np.nan_to_num` take
two to ten times as long as what they are made of.
"""

from __future__ import annotations

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
Scalar = TypeVar("Scalar", bound=np.generic)


def bounded(values: FloatArray, low: FloatArray | float, high: FloatArray | float) -> FloatArray:
    """`np.clip`: values between two bounds; NaN stays."""
    return np.minimum(np.maximum(values, low), high)


def side_by_side(*parts: NDArray[Scalar]) -> NDArray[Scalar]:
    """`np.hstack` of arrays with two axes at least."""
    return np.concatenate(parts, axis=1)


def known(values: FloatArray, otherwise: float = 0.0) -> FloatArray:
    """Values with another number in place of NaN; infinities stay, unlike with `np.nan_to_num`."""
    return np.where(np.isnan(values), otherwise, values)
