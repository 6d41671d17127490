"""Scans cut by speed over two die types: what estimator and simulator make of one cut."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from hydra_dse.config import load_calibration, load_model, load_space
from hydra_dse.design.nouns import Design
from hydra_dse.model.operators import Batch
from hydra_dse.placement import place_design
from hydra_dse.profile import build_profile
from simulators.iteration import Attended, Composition
from simulators.serving.build import build_system

CALIBRATION = load_calibration()
SHORT, LONG = 300, 2000
"""Tokens of two prompts."""


@cache
def mixed(name: str) -> Design:
    """Twelve dies with few vector units and four with sixteen times as many, placed for a model."""
    space = load_space("hydra-24-pool")
    dies = {"A": 12, "die_a": "hydra-tscs-prefill-22nm", "die_b": "hydra-marca-prefill-22nm"}
    point = space.complete({"hbm": 8, **dies, "link_gb_per_s": 512, "max_batch": 64})
    assert point is not None
    design, violations = place_design(space.build(point), load_model(name), 0)
    assert not violations and design.mapping.scan_split == "speed"
    return design


@pytest.mark.parametrize("name", ["hymba-1.5b", "nemotron-h-8b"])
def test_iterations_take_the_same_time_in_estimator_and_simulator(name: str) -> None:
    design, model = mixed(name), load_model(name)
    pool = build_profile([design], model, CALIBRATION).pools["serve"]
    cost = build_system(design, model, CALIBRATION)[0]["serve"]
    for prompt, sequences in ((SHORT, 0), (LONG, 0), (0, 1), (0, 64)):
        context, chunks = 900.0 * sequences, float(prompt > 0)
        batch = Batch(prompt, chunks, prompt**2 / 2, prompt, sequences, context, chunks or sequences)
        windows = tuple(
            Attended(
                sequences * min(900, window),
                min(prompt**2 / 2, float(prompt * window)),
                prompt,
                sequences if window > 900 else 0,
            )
            for window in (10**9, *cost.windows)
        )
        asked = Composition(prompt, int(chunks), sequences, int(chunks) or sequences, windows[0], windows[1:])
        estimated = float(np.ravel(pool.time_s(batch))[0])
        assert estimated == pytest.approx(cost.work(asked).duration_s, rel=0.03 if cost.windows else 1e-6)
