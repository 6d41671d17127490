from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hydra_dse.model.operators import Batch
from hydra_dse.profile.envelope import envelope
from hydra_dse.profile.features import Feature, FeatureList, Tiles
from hydra_dse.rng import derive


@given(st.integers(0, 10_000), st.integers(1, 5), st.integers(1, 30), st.sampled_from([1, 3]))
def test_the_kept_resources_have_the_maximum_of_all_for_any_batch(
    seed: int, patterns: int, resources: int, rows: int
) -> None:
    rng = derive(seed, "envelope")
    # Small integers, so that ties and dominated resources are common.
    loads = rng.integers(0, 4, (rows, patterns, resources)).astype(float)
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
    assert np.array_equal(np.sort(envelope(np.repeat(loads, 2, axis=0))[1]), np.sort(kept[0]))


def test_no_patterns_need_no_resources() -> None:
    assert envelope(np.zeros((2, 0, 7))).shape == (2, 0, 1)


@given(st.integers(0, 10_000))
def test_what_is_below_a_mean_of_two_others_is_dropped(seed: int) -> None:
    rng = derive(seed, "means")
    first, second, share = rng.uniform(0, 1, 2), rng.uniform(0, 1, 2), rng.uniform(0.05, 0.95)
    between = 0.999 * (share * first + (1.0 - share) * second)
    kept = envelope(np.repeat(np.stack((first, between, second), axis=1)[None], 2, axis=0))
    assert between.tolist() not in kept[0].T.tolist()


@given(st.integers(0, 10_000))
def test_bounds_at_the_extremes_of_the_features_have_the_maximum_for_any_batch(seed: int) -> None:
    rng = derive(seed, "features")
    features = FeatureList([Tiles(np.full(2, 16.0), np.ones(2))])
    names = ("rows", "runs", "padded", "prefill_tokens", "decode_tokens", "context", "sequences")
    for name in names:
        features.number(Feature(name, tiles=0 if name == "padded" else None))
    # Factors of different size, many of them 0: weights per iteration, FLOPs per row.
    bounds = rng.integers(0, 3, (2, len(names), 12)) * 10.0 ** rng.integers(-3, 2, (2, len(names), 12))
    kept = envelope(bounds, features.extremes(range(len(names))) @ bounds)
    tokens, decoding = rng.uniform(0, 300, (2, 9)) * rng.integers(0, 2, (2, 9)), rng.uniform(0, 8, (2, 9))
    batch = Batch(
        prefill_tokens=tokens,
        prefill_sequences=np.minimum(tokens, 1.0),
        prefill_context_tokens=tokens,
        decode_sequences=decoding,
        decode_context_tokens=100.0 * decoding,
    )
    values = features.values(batch, (2, 9), slice(0, 2))
    most = [np.einsum("rfb,rfk->rbk", forms, values).max(axis=1) for forms in (bounds, kept)]
    assert most[1] == pytest.approx(most[0], rel=1e-12)
    assert kept.shape[2] < 12
