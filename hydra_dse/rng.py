"""Random streams derived by key, so that no stream depends on how many numbers another drew."""

from __future__ import annotations

import hashlib

import numpy as np


def derive(seed: int, *keys: object) -> np.random.Generator:
    """Return the generator of the stream that `keys` name under `seed`.

    The same seed and keys give the same stream in every process, whatever the hash seed:
    `derive(7, "arrivals", design_id, replication)`.
    """
    text = "\x1f".join(str(key) for key in keys)
    words = np.frombuffer(hashlib.sha256(text.encode()).digest(), dtype=np.uint32)
    return np.random.default_rng(np.random.SeedSequence([seed, *(int(word) for word in words)]))
