from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hydra_dse.profile.envelope import envelope
from hydra_dse.rng import derive


@given(st.integers(0, 10_000), st.integers(1, 5), st.integers(1, 30))
def test_the_kept_resources_have_the_maximum_of_all_for_any_batch(seed: int, patterns: int, resources: int) -> None:
    rng = derive(seed, "envelope")
    # Small integers, so that ties and dominated resources are common.
    loads = rng.integers(0, 4, (3, patterns, resources)).astype(float)
    kept = envelope(loads)
    for _ in range(5):
        amounts = rng.uniform(0, 1, patterns) * rng.integers(0, 2, patterns)
        assert np.einsum("p,rpl->rl", amounts, kept).max(axis=1) == pytest.approx(
            np.einsum("p,rpl->rl", amounts, loads).max(axis=1)
        )


def test_a_resource_that_is_never_worst_is_dropped() -> None:
    loads = np.array([[[3.0, 1.0, 0.0, 3.0], [1.0, 1.0, 2.0, 1.0]]])
    kept = envelope(loads)
    assert sorted(map(tuple, kept[0].T.tolist())) == [(0.0, 2.0), (3.0, 1.0)]


def test_no_patterns_need_no_resources() -> None:
    assert envelope(np.zeros((2, 0, 7))).shape == (2, 0, 1)
