"""Hits of prefix caches as a function of capacity, against a list of entries in order of last use."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import replace

import numpy as np
import pytest

from hydra_dse.config import load_calibration, load_design, load_workload
from hydra_dse.design.evaluator import EvaluationOptions
from hydra_dse.estimator import evaluate
from hydra_dse.estimator.designs import estimate_designs
from hydra_dse.estimator.expected_reuse import ExpectedReuse, Surroundings, shorter_of, within
from hydra_dse.estimator.lengths import moments_of
from hydra_dse.estimator.reuse import Sizes, distances_of, sizes_of
from hydra_dse.model.blocks import Model
from hydra_dse.placement import place_design
from hydra_dse.policy import Policy
from hydra_dse.rng import derive
from hydra_dse.workload import (
    Empirical,
    JointLengths,
    Lognormal,
    Prefixes,
    Replay,
    RequestClass,
    Requests,
    Think,
    Workload,
    fixed,
    pieces,
    poisson,
    requests,
)
from hydra_dse.workload.nouns import LengthPoints
from hydra_dse.workload.prefixes import geometric_turns, zipf

MODEL = Model("m", "test", 64, 100, ())
LENGTHS = JointLengths(Lognormal(300, 1.0, maximum=4000), Lognormal(150, 0.8, maximum=1000))
KV, STATE = 16e3, 50e6
MODELS = {"transformer": (KV, 0.0), "hybrid": (KV, STATE), "ssm": (0.0, STATE)}


def lru_tokens(offered: Requests, sizes: Sizes, capacity: float) -> np.ndarray:
    """Tokens that each request finds, by the definition of the cache: one list, oldest entry first."""
    order: OrderedDict[tuple[str, int], float] = OrderedDict()
    held, found = 0.0, np.zeros(len(offered), dtype=np.int64)
    for number, (blocks, prompt) in enumerate(zip(offered.blocks, offered.prompt_tokens.tolist(), strict=True)):
        path = np.asarray(blocks)[sizes.ids - 1 :: sizes.ids].tolist()
        for depth, unit in enumerate(path[: (prompt - 1) // sizes.unit_tokens], start=1):
            if sizes.kv_bytes and ("kv", unit) not in order:
                break
            checkpoint = sizes.every and depth % sizes.every == 0 and ("state", unit) in order
            if checkpoint or not sizes.state_bytes:
                found[number] = depth * sizes.unit_tokens
        for depth in range(len(path), 0, -1):
            entries = [("kv", sizes.kv_bytes)] if sizes.kv_bytes else []
            if sizes.state_bytes and sizes.every and depth % sizes.every == 0:
                entries.insert(0, ("state", sizes.state_bytes))
            for kind, size in entries:
                entry = (kind, path[depth - 1])
                held += 0.0 if entry in order else size
                order[entry] = size
                order.move_to_end(entry)
        while held > capacity:
            held -= order.popitem(last=False)[1]
    return found


def sampled(prefixes: Prefixes, rate: float = 2.0) -> Workload:
    return Workload("w", (MODEL,), poisson(rate), (RequestClass("all", LENGTHS),), prefixes=prefixes)


WORKLOADS = {
    "system prompts": sampled(Prefixes(16, (1000,) * 200, zipf(200, 1.0))),
    "sessions": sampled(Prefixes(16, (), (), geometric_turns(5, 20), Think(20.0, 1.5))),
    "both": sampled(Prefixes(16, (1500,) * 20, zipf(20, 1.0), geometric_turns(4, 20), Think(15.0, 1.0))),
}


def sizes_for(model: str, block_tokens: int = 16, every: int = 512) -> Sizes:
    return sizes_of(Policy(block_tokens=16, state_checkpoint_tokens=every), block_tokens, *MODELS[model])


def mooncake_like(count: int = 1500) -> Requests:
    """Blocks of 512 tokens; prompts continue earlier ones, share a beginning, or are new; times in bursts."""
    rng = derive(5, "mooncake")
    chains: list[tuple[int, ...]] = []
    fresh = 0
    blocks, prompts = [], []
    for _ in range(count):
        kind = rng.random()
        known = chains[int(len(chains) * rng.random() ** 0.3)] if chains and kind < 0.7 else ()
        if kind > 0.5:
            known = known[: int(rng.integers(0, 6))]
        added = int(rng.geometric(0.08))
        path = (*known, *range(fresh, fresh + added))
        fresh += added
        chains.append(path)
        blocks.append(path)
        prompts.append(512 * len(path) - int(rng.integers(0, 400)))
    times = np.sort(rng.integers(0, count // 10, count)) * 3.0
    blocks = [ids[: prompt // 512] for ids, prompt in zip(blocks, prompts, strict=True)]
    return Requests(
        times.astype(float),
        np.array(prompts),
        rng.integers(1, 600, count),
        np.zeros(count, dtype=np.int64),
        tuple(blocks),
        512,
    )


@pytest.mark.parametrize("model", MODELS)
def test_reuse_distances_of_a_mooncake_like_trace_are_those_of_an_lru_list(model: str) -> None:
    """Exact, request by request, from hardly anything to all."""
    offered, sizes = mooncake_like(), sizes_for(model, 512, 1024)
    distances = distances_of(offered, sizes)
    shares = []
    for capacity in (1e8, 2e9, 2e10, 1e11, 1e15):
        expected = lru_tokens(offered, sizes, capacity)
        assert distances.found(capacity).tolist() == expected.tolist()
        shares.append(distances.share(capacity))
        assert shares[-1] == pytest.approx(expected.sum() / offered.prompt_tokens.sum())
    assert shares == sorted(shares)
    assert shares[0] < 0.1 < 0.3 < shares[-1]


@pytest.mark.parametrize("name", WORKLOADS)
def test_reuse_distances_of_sampled_sessions_are_those_of_an_lru_list(name: str) -> None:
    offered, sizes = requests(WORKLOADS[name], 600, derive(1)), sizes_for("hybrid")
    for capacity in (1e9, 2e10, 1e12):
        assert distances_of(offered, sizes).found(capacity).tolist() == lru_tokens(offered, sizes, capacity).tolist()


CASES = [(name, model, factor) for name in WORKLOADS for model in MODELS for factor in (0.3, 1.0, 4.0, 1000.0)]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "model", "factor"), CASES)
def test_expected_hits_are_within_three_points_of_an_lru_list(name: str, model: str, factor: float) -> None:
    """36 cases; the first third of a run fills the list.  The exact distances stand for the list (tests above)."""
    workload, sizes = WORKLOADS[name], sizes_for(model)
    offered = requests(workload, 5000, derive(7, name))
    capacity = factor * 1e10
    expected, _ = ExpectedReuse(workload, workload.prefixes, sizes).points(capacity, Surroundings(2.0))
    counted = slice(1700, None)
    found = distances_of(offered, sizes).found(capacity)[counted].sum() / offered.prompt_tokens[counted].sum()
    assert expected.mean(expected.cached_tokens) / expected.mean(expected.prompt_tokens) == pytest.approx(
        found, abs=0.03
    )


def test_think_times_have_gamma_moments() -> None:
    think = Think(10.0, 1.5)
    drawn = think.sample(200_000, derive(2))
    for time in (1.0, 10.0, 40.0):
        assert float(within(think, np.array(time))) == pytest.approx(float((drawn <= time).mean()), abs=0.004)
        assert shorter_of(think, time) == pytest.approx(float(np.minimum(drawn, time).mean()), rel=0.01)
    assert shorter_of(Think(10.0, 0.0), 4.0) == 4.0
    assert float(within(Think(10.0, 0.0), np.array(9.9))) == 0.0


def test_hits_grow_with_capacity_and_state_without_checkpoints_finds_nothing() -> None:
    workload = WORKLOADS["both"]
    reuse = ExpectedReuse(workload, workload.prefixes, sizes_for("hybrid"))
    found = [reuse.points(capacity, Surroundings(2.0))[0] for capacity in (0.0, 1e9, 1e10, 1e11, 1e13)]
    means = [points.mean(points.cached_tokens) for points in found]
    assert (np.diff(means) >= -1e-6).all()
    assert means[0] == 0.0
    without = ExpectedReuse(workload, workload.prefixes, sizes_for("hybrid", every=0))
    points, _ = without.points(1e13, Surroundings(2.0))
    assert points.mean(points.cached_tokens) == 0.0


def test_moments_count_what_is_computed_and_memory_holds_all() -> None:
    """Prompts of 100 with 60 found and of 300 with none, in equal parts."""
    points = LengthPoints(np.array([100.0, 300.0]), np.array([11.0, 11.0]), np.full(2, 0.5), np.array([60.0, 0.0]))
    moments = moments_of(points)
    assert (moments.prompt, moments.stored, moments.ahead) == (170.0, 200.0, 30.0)
    assert moments.ahead_of_token == pytest.approx(60 * 40 / (40 + 300))
    assert moments.context == pytest.approx(200 + 11 / 2)
    assert moments.prompt_bins.size.tolist() == pytest.approx([40.0, 300.0])
    assert moments.ahead_bins.tolist() == pytest.approx([60.0, 0.0])


def test_pieces_of_a_record_leave_out_what_is_found() -> None:
    record = mooncake_like(1200)
    lengths = Empirical(record.prompt_tokens, record.output_tokens)
    replay = Workload("r", (MODEL,), Replay(record.arrival_s), (RequestClass("all", lengths),), replay=record)
    found = distances_of(record, sizes_for("transformer", 512)).found(1e15)
    [piece] = pieces(replay, found)
    assert piece.lengths.mean(piece.lengths.cached_tokens) == pytest.approx(found.mean())
    assert piece.path.prompt_tokens.sum() == (record.prompt_tokens - found).sum()
    [plain] = pieces(replay)
    assert plain.lengths.cached_tokens is None


# -- whole designs --------------------------------------------------------------------------------------------

CALIBRATION = load_calibration("default")


def chat(rate: float, model: str, think_s: float) -> Workload:
    loaded = load_workload("tool-sessions", [f"model={model}", f"arrivals.rate={rate} req/s"])
    return replace(loaded, prefixes=replace(loaded.prefixes, think=Think(think_s, 1.0)))


def test_a_prefix_cache_shortens_the_first_token_and_off_changes_nothing() -> None:
    workload = chat(2.0, "nemotron-nano-9b-v2", 10.0)
    off, on = (load_design("h100", [f"policy.prefix_cache={flag}"]) for flag in ("false", "true"))
    table = estimate_designs([off, on], workload, CALIBRATION)
    alone = estimate_designs([off], workload, CALIBRATION)
    assert table.metrics["prefix_hit_share"][0] == 0.0
    assert 0.3 < table.metrics["prefix_hit_share"][1] < 0.95
    assert alone.metrics["prefix_hit_share"].tolist() == [0.0]
    assert table.metrics["ttft_mean_s"][0] == alone.metrics["ttft_mean_s"][0]
    assert table.metrics["ttft_mean_s"][1] < 0.6 * table.metrics["ttft_mean_s"][0]
    assert table.metrics["saturation_requests_per_s"][1] > table.metrics["saturation_requests_per_s"][0]


def test_sessions_last_for_their_answers_and_their_think_times() -> None:
    workload = chat(1.0, "llama-3.1-8b", 10.0)
    [found] = evaluate([load_design("h100")], workload, CALIBRATION)
    turns = workload.prefixes.mean_turns
    expected = turns * found.metrics["e2e_mean_s"] + (turns - 1) * 10.0
    assert found.metrics["session_e2e_mean_s"] == pytest.approx(expected)


def test_a_workload_without_prefixes_has_nothing_to_find() -> None:
    workload = Workload("w", load_workload("sharegpt").models, poisson(1.0), (RequestClass("all", fixed(100, 20)),))
    [found] = evaluate([load_design("h100", ["policy.prefix_cache=true"])], workload, CALIBRATION)
    assert found.metrics["prefix_hit_share"] == 0.0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "rate", "think_s", "policy"),
    [
        ("nemotron-nano-9b-v2", 3.0, 20.0, []),
        ("llama-3.1-8b", 3.0, 40.0, []),
        ("nemotron-nano-9b-v2", 6.0, 20.0, ["policy.host_cache=100 GB", "policy.host_bandwidth=20 GB/s"]),
    ],
)
def test_hit_shares_of_designs_are_within_three_points_of_the_simulation(
    model: str, rate: float, think_s: float, policy: list[str]
) -> None:
    from simulators.serving import ServingSimulator

    workload = chat(rate, model, think_s)
    design = load_design("h100", ["policy.prefix_cache=true", *policy])
    placed, _ = place_design(design, workload.models[0], 0)
    options = EvaluationOptions(requests=1200, replications=1, warmup_share=0.4, saturate=False)
    [simulated] = ServingSimulator().evaluate([placed], workload, CALIBRATION, options, 3)
    found = simulated.metrics["prefix_hit_share"]
    [estimated] = evaluate([design], workload, CALIBRATION)
    assert estimated.metrics["prefix_hit_share"] == pytest.approx(found, abs=0.03)
