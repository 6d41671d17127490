"""Readers and shipped lengths against the published figures of real traces (skipped where the data are absent)."""

import json
import math
import os
from pathlib import Path

import numpy as np
import pytest

from hydra_dse.config.lengths_schema import LengthsFile, lengths_of
from hydra_dse.config.loader import load_yaml, validate
from hydra_dse.rng import derive
from hydra_dse.workload import Replay
from hydra_dse.workload.traces.read import read_lengths, read_trace
from hydra_dse.workload.traces.record import Columns

ROOT = Path(__file__).resolve().parents[2]
REFERENCE = Path(os.environ.get("HYDRA_DSE_REFERENCE", ROOT.parent / "shared" / "reference"))
TRACES = REFERENCE / "traces"
LENGTHS = ROOT / "workloads" / "lengths"

pytestmark = pytest.mark.skipif(not TRACES.is_dir(), reason=f"no reference data at {REFERENCE}")


def statistics():
    return json.loads((TRACES / "trace_stats.json").read_text())


@pytest.mark.parametrize("key", ["azure2023_code", "azure2023_conv"])
def test_an_azure_trace_has_its_published_rate_burstiness_and_lengths(key):
    published = statistics()[key]
    trace = read_trace(TRACES / published["file"])
    replay = Replay(trace.requests.arrival_s).statistics()
    assert len(trace.requests) == published["arrival"]["n"]
    assert replay.rate_per_s == pytest.approx(published["arrival"]["rate_rps"], abs=5e-4)
    assert replay.cv == pytest.approx(published["arrival"]["iat_cv"], abs=2e-3)
    for side, tokens in (("input", trace.requests.prompt_tokens), ("output", trace.requests.output_tokens)):
        assert tokens.mean() == pytest.approx(published[side]["mean"], abs=0.05)
        assert np.percentile(tokens, [50, 90, 99]).tolist() == pytest.approx(
            [published[side][name] for name in ("p50", "p90", "p99")]
        )


@pytest.mark.parametrize("key", ["azure2023_code", "azure2023_conv"])
def test_points_of_an_azure_trace_keep_its_moments(key):
    requests = read_trace(TRACES / statistics()[key]["file"]).requests
    points = read_lengths(TRACES / statistics()[key]["file"]).points()
    prompt, output = requests.prompt_tokens.astype(float), requests.output_tokens.astype(float)
    assert len(points.weight) <= 2000
    for function, tolerance in (
        (lambda p, o: p, 1e-9),
        (lambda p, o: o, 1e-9),
        (lambda p, o: p * o, 0.005),
        (lambda p, o: p**2, 0.01),
        (lambda p, o: o**2, 0.01),
    ):
        value = points.mean(function(points.prompt_tokens, points.output_tokens))
        assert value == pytest.approx(function(prompt, output).mean(), rel=tolerance)


PUBLISHED = {
    "azure-code": ("azure2023_code", "input", "output"),
    "azure-conversation": ("azure2023_conv", "input", "output"),
    "arxiv-summarization": ("arxiv_summarization_vidur", "input", "output"),
    "mooncake-conversation": ("mooncake_conversation", "input", "output"),
    "sharegpt": ("sharegpt_v3_prefix", "prompt", "response"),
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_shipped_lengths_agree_with_the_published_mean_and_percentiles(name):
    """Percentile errors are sampling noise: `√(q(1−q)/n)` in probability, checked at 4 standard errors."""
    key, *sides = PUBLISHED[name]
    published = statistics()[key]
    count = 200_000
    drawn = lengths_of(validate(load_yaml(LENGTHS / f"{name}.yaml"), LengthsFile)).sample(count, derive(1, name))
    for side, tokens in zip(sides, drawn, strict=True):
        error = 4 * tokens.std() / math.sqrt(count)
        assert tokens.mean() == pytest.approx(published[side]["mean"], abs=error + 0.5)
        for level, label in ((0.5, "p50"), (0.9, "p90"), (0.99, "p99")):
            noise = 4 * math.sqrt(level * (1 - level) / count)
            low, high = np.quantile(tokens, [level - noise, min(level + noise, 1.0)])
            assert low - 1 <= published[side][label] <= high + 1, (side, label)


@pytest.mark.parametrize("name", ["azure-code", "azure-conversation", "arxiv-summarization"])
def test_shipped_lengths_have_the_second_moment_of_the_trace(name):
    """Second moments are not published; 19 percentiles hold them within 6 %."""
    files = {
        "azure-code": "AzureLLMInferenceTrace_code_2023.csv",
        "azure-conversation": "AzureLLMInferenceTrace_conv_2023.csv",
        "arxiv-summarization": "arxiv_summarization_llama2_tokens_vidur.csv",
    }
    recorded = read_lengths(TRACES / files[name])
    points = lengths_of(validate(load_yaml(LENGTHS / f"{name}.yaml"), LengthsFile)).points()
    for tokens, shipped in (
        (recorded.prompt_tokens, points.prompt_tokens),
        (recorded.output_tokens, points.output_tokens),
    ):
        real = math.sqrt((tokens.astype(float) ** 2).mean())
        assert math.sqrt(points.mean(shipped**2)) == pytest.approx(real, rel=0.06)


@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("hydra-chat", "chat_nemo_first1137.csv"),
        ("hydra-longwriter", "longwriter_nemo_first150.csv"),
        ("hydra-bilingual-web-books", "bwb_nemo_first120.csv"),
    ],
)
def test_shipped_hydra_classes_agree_with_the_published_rows(name, file):
    recorded = read_lengths(REFERENCE / "hydra" / "lengths" / file)
    points = lengths_of(validate(load_yaml(LENGTHS / f"{name}.yaml"), LengthsFile)).points()
    for tokens, shipped in (
        (recorded.prompt_tokens, points.prompt_tokens),
        (recorded.output_tokens, points.output_tokens),
    ):
        assert points.mean(shipped) == pytest.approx(tokens.mean(), rel=1e-3)
        assert math.sqrt(points.mean(shipped**2)) == pytest.approx(math.sqrt((tokens**2.0).mean()), rel=0.06)


def test_sharegpt_lengths_name_the_row_of_an_empty_prompt():
    columns = Columns("first_prompt_tokens", "first_response_tokens")
    with pytest.raises(ValueError, match=r"sharegpt_v3_prefix_token_lengths\.csv:\d+: first_"):
        read_lengths(TRACES / "sharegpt_v3_prefix_token_lengths.csv", columns=columns)
