"""Experts placed whole in the package simulator: bytes by hand, drawn routings, and agreement with the profile."""

from __future__ import annotations

import numpy as np
import pytest

from hydra_dse.config import load_design
from hydra_dse.config.hardware import load_calibration
from hydra_dse.config.workloads import load_model
from hydra_dse.design.nouns import MappingChoice
from hydra_dse.mapping.experts import place_experts
from hydra_dse.model.operators import Batch
from hydra_dse.model.routing import Routing
from hydra_dse.placement import place_design
from hydra_dse.profile import build_profile
from hydra_dse.workload import RoutingSkew, with_skew
from simulators.iteration import Attended, Composition
from simulators.package import PackageCost, ledger_of
from simulators.package.experts import drawn
from simulators.serving.build import build_system
from tests.mapping import pieces

CALIBRATION = load_calibration()


def composition(cost: PackageCost, prompt: int, sequences: int) -> Composition:
    """A whole prompt, or sequences that decode at a context of 1,000."""
    windows = []
    for window in (10**9, *cost.windows):
        pairs = min(prompt**2 / 2, prompt * window)
        context = sequences * min(1000, window)
        windows.append(Attended(context, pairs, prompt, sequences if window > 1000 else 0))
    ends = 1 if prompt else sequences
    return Composition(prompt, 1 if prompt else 0, sequences, ends, windows[0], tuple(windows[1:]))


def batch(prompt: float, sequences: float) -> Batch:
    prompts = float(prompt > 0)
    return Batch(prompt, prompts, prompt**2 / 2, prompt, sequences, 1000.0 * sequences, prompts or sequences)


MODELS = {
    # hybrid: 128 experts, 6 a token; transformer: 8 experts, 2 a token, on a package that holds them
    "nemotron-3-nano-30b-a3b": (),
    "mixtral-8x7b": ("dies.Mp.count=7", "dies.Md.count=7", "memories.HBM.count=8"),
    "gpt-oss-20b": (),
}
PLACEMENTS = {
    "round_robin": (),
    "popularity": ("mapping.expert_placement=popularity",),
    "copies": ("mapping.replicated_experts=2",),
    "tensor": ("mapping.parallelism=tensor",),
}
CASES = [
    *(("nemotron-3-nano-30b-a3b", placement) for placement in ("round_robin", "popularity", "copies")),
    *(("mixtral-8x7b", placement) for placement in ("round_robin", "tensor")),
    ("gpt-oss-20b", "copies"),
]


@pytest.mark.slow
@pytest.mark.parametrize("skew", [0.0, 0.5, 1.0])
@pytest.mark.parametrize(("name", "placement"), CASES)
def test_iteration_times_of_estimator_and_simulator_agree_within_5_percent(
    name: str, placement: str, skew: float
) -> None:
    model = with_skew(load_model(name), RoutingSkew(zipf=skew))
    overrides = ["mapping.parallelism=expert", *MODELS[name], *PLACEMENTS[placement]]
    design, violations = place_design(load_design("hydra-24-nemotron-chat", overrides), model, 0)
    assert not violations
    profile = build_profile([design], model, CALIBRATION)
    costs, _ = build_system(design, model, CALIBRATION)
    for pool, prompt, sequences in [
        *(("decode", 0, n) for n in (1, 2, 3, 5, 8, 24, 64)),
        *(("prefill", n, 0) for n in (40, 300, 1000)),
    ]:
        estimated = float(np.asarray(profile.pools[pool].time_s(batch(float(prompt), float(sequences))))[0, 0])
        simulated = costs[pool].work(composition(costs[pool], prompt, sequences)).duration_s
        assert estimated == pytest.approx(simulated, rel=0.05), (pool, prompt, sequences)


@pytest.mark.parametrize("degree", [2, 3])
def test_stages_of_a_pipeline_take_the_same_time_in_estimator_and_simulator(degree: int) -> None:
    model = load_model("llama-3.1-8b")
    dies = ["dies.Ap.count=3", "dies.Mp.count=4", "dies.Ad.count=3", "dies.Md.count=8"]
    design, violations = place_design(
        load_design("hydra-24-nemotron-chat", [*dies, f"mapping.pipeline={degree}"]), model, 0
    )
    assert not violations
    profile = build_profile([design], model, CALIBRATION)
    costs, _ = build_system(design, model, CALIBRATION)
    for pool, prompt, sequences in (("decode", 0, 1), ("decode", 0, 16), ("prefill", 300, 0)):
        estimated = float(np.asarray(profile.pools[pool].time_s(batch(float(prompt), float(sequences))))[0, 0])
        cost = costs[pool]
        work = cost.work(composition(cost, prompt, sequences))
        assert estimated == pytest.approx(work.duration_s, rel=1e-6)
        busy = profile.pools[pool].busy_s(batch(float(prompt), float(sequences)))
        for name, share in zip(cost.usages.die_names, cost.usages_of(work), strict=False):
            expected = float(np.asarray(busy[name])[0, 0]) if name in busy else 0.0
            assert share * work.duration_s == pytest.approx(expected, rel=1e-6)
    cost = costs["decode"]
    cost.count(cost.work(composition(cost, 0, 16)))
    moved = ledger_of(cost, cost.snapshot()).operands["activations (stage)"]
    # Each hand-over crosses at least one link: 16 tokens of the model's width in bf16.
    assert moved.link_bytes.sum() >= (degree - 1) * 16 * model.hidden_size * 2.0


def hand_made(routing: Routing, copies: int = 0) -> PackageCost:
    """Two dies above a stack each; one mixture of four experts, and nothing else."""
    from hydra_dse.mapping import map_operands
    from simulators.package import PlacedHardware
    from tests.mapping.test_experts import experts_on, operands

    design = experts_on(copies=copies)
    mapped = map_operands(design, operands(routing))
    return PackageCost(PlacedHardware(design, mapped, pieces.ideal(), pieces.PRECISION), "serve")


def counted(cost: PackageCost, rows: int) -> dict[str, tuple[list[float], list[float]]]:
    cost.count(cost.work(Composition(0, 0, rows, rows, Attended(rows, 0.0, 0, rows))))
    ledger = ledger_of(cost, cost.snapshot())
    return {name: (part.site_bytes.tolist(), part.link_bytes.tolist()) for name, part in ledger.operands.items()}


def links(cost: PackageCost, loads: dict[tuple[int, int], float]) -> list[float]:
    return [loads.get(link, 0.0) for link in cost.hardware.links.routes.links]


def test_counted_bytes_of_uniform_experts_equal_a_ledger_by_hand() -> None:
    cost = hand_made(Routing(4, 2))
    book = counted(cost, 3)
    # Two operators; of four experts of 200 bytes each is read by 3 tokens with probability 1 − (1/2)³; two a die.
    read = 2 * 2 * 200.0 * (1 - 0.5**3)
    assert book["weights"][0] == pytest.approx([read, read])
    assert book["weights"][1] == pytest.approx(links(cost, {(2, 0): read, (3, 1): read}))
    # Half of the tokens are at each die; 5/6 of them use an expert of the other one, 20 bytes each way.
    moved = 3 * 0.5 * (5 / 6) * 20.0
    assert book["activations (dispatch)"][1] == pytest.approx(links(cost, {(0, 1): moved, (1, 0): moved}))
    assert book["activations (combine)"][1] == pytest.approx(links(cost, {(0, 1): moved, (1, 0): moved}))


def test_counted_bytes_of_a_histogram_equal_a_ledger_by_hand() -> None:
    cost = hand_made(Routing(4, 1, shares=(1.0, 1.0, 2.0, 0.0)))
    book = counted(cost, 2)
    # Die 0 holds experts 0 and 2 (used by 1/4 and 1/2 of the tokens), die 1 expert 1 (1/4) and expert 3 (none).
    first = 2 * 200.0 * ((1 - 0.75**2) + (1 - 0.5**2))
    second = 2 * 200.0 * (1 - 0.75**2)
    assert book["weights"][0] == pytest.approx([first, second])
    dispatched = {(0, 1): 2 * 0.5 * 0.25 * 20.0, (1, 0): 2 * 0.5 * 0.75 * 20.0}
    assert book["activations (dispatch)"][1] == pytest.approx(links(cost, dispatched))
    combined = {(1, 0): 2 * 0.5 * 0.25 * 20.0, (0, 1): 2 * 0.5 * 0.75 * 20.0}
    assert book["activations (combine)"][1] == pytest.approx(links(cost, combined))


def test_counted_bytes_of_a_replicated_expert_equal_a_ledger_by_hand() -> None:
    cost = hand_made(Routing(4, 1, shares=(3.0, 1.0, 0.0, 0.0)), copies=1)
    book = counted(cost, 2)
    # Expert 0 (3/4 of the tokens) is read by each die for the tokens there; expert 1 lies at die 0.
    copy = 1 - (1 - 0.75 * 0.5) ** 2
    assert book["weights"][0] == pytest.approx([2 * 200.0 * (copy + 1 - 0.75**2), 2 * 200.0 * copy])
    assert book["activations (dispatch)"][1] == pytest.approx(links(cost, {(1, 0): 2 * 0.5 * 0.25 * 20.0}))


def test_drawn_routings_have_the_expected_means() -> None:
    routing, share = Routing(16, 3, 0.8), np.full(4, 0.25)
    placement = place_experts(routing, share, np.diag(share), "round_robin", 2)
    read, worked = drawn(placement, 12)
    # Copies are read by the die at which a token is, so each token reads one of them.
    assert worked.sum(axis=1) == pytest.approx(np.full(len(worked), 36.0))
    error = 4.5 * read.std(axis=0) / np.sqrt(len(read))
    assert (np.abs(read.mean(axis=0) - placement.distinct(12.0)) < error).all()
    error = 4.5 * worked.std(axis=0) / np.sqrt(len(worked))
    assert (np.abs(worked.mean(axis=0) / 36.0 - placement.load_share) < error / 36.0).all()


def test_draws_do_not_depend_on_what_was_drawn_before() -> None:
    share = np.full(4, 0.25)
    placement = place_experts(Routing(16, 3, 0.8), share, np.diag(share), "round_robin", 0)
    first = [part.copy() for part in drawn(placement, 7)]
    drawn(placement, 9)
    assert all((one == two).all() for one, two in zip(first, drawn(placement, 7), strict=True))


def test_skew_of_a_workload_reaches_the_simulator() -> None:
    model = load_model("nemotron-3-nano-30b-a3b")
    design, _ = place_design(load_design("hydra-24-nemotron-chat"), model, 0)
    seconds = []
    for skew in (0.0, 1.0):
        costs, _ = build_system(design, with_skew(model, RoutingSkew(zipf=skew)), CALIBRATION)
        seconds.append(costs["decode"].work(composition(costs["decode"], 0, 32)).duration_s)
    assert seconds[1] < 0.9 * seconds[0]
    assert MappingChoice().parallelism == "tensor"
