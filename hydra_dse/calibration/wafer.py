"""Depth on a wafer: three regimes from a handful of figures.

While elements last, every layer gets what the target rate needs and the rate stays (*growing*).  When they run out
the elements left for layers are shared, and the rate falls with them (*element-limited*).  Deeper still, transport
between kernels sets the rate (*transmission-limited*), a steep fall for which a power law through two points is all
that the figures identify.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from hydra_dse.calibration.nouns import FloatArray
from hydra_dse.calibration.records import FitSection

TOTAL_ELEMENTS = 307_840.0
"""Elements that a compile report calls 100 % (its counts over its printed shares)."""


@dataclass(frozen=True)
class Wafer:
    """How a compiled model's rate depends on its depth.

    Attributes:
        base, layer: elements outside the layers and of one layer at the target rate.
        target_per_s: samples per second of the slowest kernel that does not belong to a layer.
        filled: largest share of the elements that a compilation uses.
        transmission_per_s, exponent: rate at one layer and power of the depth, of the transport limit; None where
            it was never seen.
    """

    base: float
    layer: float
    target_per_s: float
    filled: float
    transmission_per_s: float | None = None
    exponent: float | None = None

    def elements(self, layers: FloatArray) -> FloatArray:
        """Elements used, shape of `layers`."""
        return np.minimum(self.base + layers * self.layer, self.filled * TOTAL_ELEMENTS)

    def rates_per_s(self, layers: FloatArray) -> FloatArray:
        """Samples per second, shape of `layers`."""
        return np.asarray(np.minimum.reduce(self._limits(layers)))

    def regimes(self, layers: FloatArray) -> list[str]:
        """The regime at each depth."""
        names = ("growing", "element-limited", "transmission-limited")
        return [names[int(number)] for number in np.argmin(self._limits(layers), axis=0)]

    def _limits(self, layers: FloatArray) -> list[FloatArray]:
        left = self.filled * TOTAL_ELEMENTS - self.base
        limits = [
            np.full(np.shape(layers), self.target_per_s),
            np.asarray(self.target_per_s * left / (layers * self.layer)),
        ]
        if self.transmission_per_s is not None and self.exponent is not None:
            limits.append(np.asarray(self.transmission_per_s * layers**-self.exponent))
        return limits


def wafer_from(fits: Mapping[str, FitSection], variant: str) -> Wafer:
    """The wafer that fits of elements, rates and transport describe together.

    Raises:
        KeyError: elements or rates of that variant were not fitted.
    """
    elements = fits[f"wse-elements-{variant}"].parameters
    rates = fits[f"wse-rates-{variant}"].parameters
    base, layer = elements["base"].value, elements["layer"].value
    transport = fits.get(f"wse-transmission-{variant}")
    rate = exponent = None
    if transport is not None:
        exponent = transport.parameters["exponent"].value
        rate = transport.parameters["rate"].value * 100.0**exponent
    filled = (base + rates["full_layers"].value * layer) / TOTAL_ELEMENTS
    return Wafer(base, layer, rates["target"].value, filled, rate, exponent)
