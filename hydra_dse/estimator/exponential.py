"""Slices of an exponential variable: their probabilities, and conditional means in units of its mean."""

from __future__ import annotations

import numpy as np

EXPONENTIAL_EDGES = np.array([0.0, 0.25, 0.5, 0.7, 0.85, 0.93, 0.97, 0.99, 1.0])
_SURVIVAL = 1.0 - EXPONENTIAL_EDGES
_XLOGX = np.where(_SURVIVAL > 0, _SURVIVAL * np.log(np.where(_SURVIVAL > 0, _SURVIVAL, 1.0)), 0.0)
EXPONENTIAL_WEIGHTS = np.diff(EXPONENTIAL_EDGES)
EXPONENTIAL_POINTS = 1.0 + np.diff(_XLOGX) / EXPONENTIAL_WEIGHTS
