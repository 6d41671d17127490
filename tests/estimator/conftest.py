from __future__ import annotations

import numpy as np
import pytest

from hydra_dse.workload.nouns import LengthPoints


def lognormal(rng: np.random.Generator, mean: float, cv: float, count: int) -> np.ndarray:
    s2 = np.log(1 + cv * cv)
    return np.maximum(1, np.rint(rng.lognormal(np.log(mean) - s2 / 2, np.sqrt(s2), count))).astype(int)


def points(prompt: np.ndarray, output: np.ndarray) -> LengthPoints:
    count = len(prompt)
    return LengthPoints(prompt.astype(float), output.astype(float), np.full(count, 1.0 / count))


@pytest.fixture
def chat() -> LengthPoints:
    """Conversation-like lengths: prompts of mean 1155 (CV 0.95), outputs of mean 211 (CV 0.8)."""
    rng = np.random.default_rng(5)
    return points(lognormal(rng, 1155, 0.95, 3000), lognormal(rng, 211, 0.8, 3000))
