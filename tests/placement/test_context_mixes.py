"""The study of contexts: a table for each model, with the best package and those near it."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.context_mixes import NEAR, SATURATION, SUBJECTS, designs_of, load_of, rows_of


def test_prompts_have_the_length_of_the_context_and_models_the_format_of_their_state():
    fp32, bf16, transformer, *_ = SUBJECTS
    workload = load_of(fp32, 64_000)
    prompts, _ = workload.classes[0].lengths.sample(5, np.random.default_rng(0))
    assert prompts.tolist() == [64_000] * 5
    assert load_of(transformer, 1_000).models[0].name == "llama-3.1-8b"
    assert {design.precision.state for design in designs_of(bf16, 300)} == {"bf16"}


@pytest.mark.slow
def test_a_row_names_the_best_package_and_what_the_first_one_keeps():
    [short, long] = rows_of(SUBJECTS[0], (1_000, 128_000), 60)
    assert short["first_keeps"] == 1.0
    assert 0.0 < long["first_keeps"] <= 1.0
    for row in (short, long):
        assert sum(row[name] for name in ("hbm", "Ap", "Ad", "Mp", "Md")) == 24
        assert row["mixes_near"] >= 1
        assert row["hbm:low"] <= row["hbm"] <= row["hbm:high"]
    assert long[SATURATION] < NEAR * short[SATURATION]
    assert short["kv_bytes_per_token"] * 8_800 == pytest.approx(short["state_bytes"], rel=0.01)
