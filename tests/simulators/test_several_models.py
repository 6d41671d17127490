"""Workloads of several models on placed packages: weights, memory, die groups, metrics per model."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from hydra_dse.config import load_calibration, load_design, load_model, load_workload
from hydra_dse.design.evaluator import EvaluationOptions
from hydra_dse.design.nouns import Design
from hydra_dse.errors import InputError
from hydra_dse.estimator import evaluate
from hydra_dse.model.blocks import Model
from hydra_dse.placement import place_design
from hydra_dse.policy import Policy
from hydra_dse.results import Evaluation, metric
from hydra_dse.workload import Prefixes, RequestClass, Workload, fixed, poisson
from simulators.serving import ServingSimulator

OPTIONS = EvaluationOptions(requests=80, replications=2, rate_per_s=1.0)
HYBRID, TRANSFORMER = "nemotron-h-4b", "qwen3-8b"


def workload(*models: Model) -> Workload:
    lengths = fixed(200, 20)
    classes = tuple(
        RequestClass(f"class {at}", lengths, 1.0 / len(models), model_index=at) for at in range(len(models))
    )
    return Workload("mix", models, poisson(1.0), classes)


@cache
def design(**mapping: object) -> Design:
    one = load_design("hydra-24-nemotron-chat")
    choice = replace(one.mapping, models=dict(mapping.pop("models", ())), **mapping)  # type: ignore[call-overload]
    policy = Policy(serving="colocated", max_batch=8, token_budget=512)
    return replace(one, mapping=choice, policy=policy)


def simulate(design: Design, load: Workload, **options: object) -> Evaluation:
    models = list(dict.fromkeys(load.models))
    placed, violations = place_design(design, models, 0)
    assert not violations
    settings = replace(OPTIONS, **options)  # type: ignore[arg-type]
    return ServingSimulator().evaluate([placed], load, load_calibration("default"), settings, 1)[0]


def test_two_equal_models_share_weights_and_equal_one_model_at_the_full_rate() -> None:
    model = load_model(HYBRID)
    one, two = (simulate(design(), workload(*[model] * count)) for count in (1, 2))
    assert one.metrics == two.metrics


def test_metrics_are_of_all_requests_and_of_each_model() -> None:
    result = simulate(design(), workload(load_model(HYBRID), load_model(TRANSFORMER)))
    assert result.feasible
    own = [result.metrics[f"ttft_mean_s@{name}"] or 0.0 for name in (HYBRID, TRANSFORMER)]
    assert min(own) <= (result.metrics["ttft_mean_s"] or 0.0) <= max(own)
    rates = [result.metrics[f"throughput_tokens_per_s@{name}"] or 0.0 for name in (HYBRID, TRANSFORMER)]
    assert sum(rates) == pytest.approx(result.metrics["throughput_tokens_per_s"])
    kv = [result.metrics[f"kv_occupancy@{name}"] or 0.0 for name in (HYBRID, TRANSFORMER)]
    assert sum(kv) == pytest.approx(result.metrics["kv_occupancy"])
    assert result.metrics[f"state_occupancy@{TRANSFORMER}"] == 0.0
    assert (result.metrics[f"state_occupancy@{HYBRID}"] or 0.0) > 0.0
    for name in result.metrics:
        metric(name)


def test_weights_of_all_models_must_fit_together_and_a_violation_names_demand_and_capacity() -> None:
    names = (HYBRID, TRANSFORMER, "nemotron-h-8b", "llama-3.1-8b", "zamba2-7b", "bamba-9b")
    models = [load_model(name) for name in names]
    one = design()
    small = replace(one.package.memories[0], count=3)
    tight = replace(one, package=replace(one.package, memories=(small,)))
    capacity = 3 * small.stack.capacity_bytes
    result = simulate(tight, workload(*models[:2]))
    assert result.feasible
    [violation] = simulate(tight, workload(*models)).violations
    assert violation.demand > violation.bound == pytest.approx(capacity)
    assert all(name in violation.constraint for name in names)


def test_models_on_die_groups_of_their_own_keep_the_dies_of_the_other_idle() -> None:
    hybrid, transformer = load_model(HYBRID), load_model(TRANSFORMER)
    whole = design()
    plain = tuple(replace(group, families=(), phase="any") for group in whole.package.dies)
    apart = replace(
        whole,
        package=replace(whole.package, dies=plain),
        mapping=replace(whole.mapping, models={HYBRID: ("Mp", "Md"), TRANSFORMER: ("Ap", "Ad")}),
    )
    both = simulate(apart, workload(hybrid, transformer), saturate=False)
    assert both.feasible
    alone = simulate(apart, replace(workload(hybrid, transformer), classes=workload(hybrid).classes), saturate=False)
    assert (both.metrics["utilization_Ap"] or 0.0) > 0.1
    assert alone.metrics.get("utilization_Ap", 0.0) == alone.metrics.get("utilization_Ad", 0.0) == 0.0
    # Alone at twice the rate: only the stacks are shared, so steps are no faster beside the other model.
    assert (both.metrics[f"tpot_mean_s@{HYBRID}"] or 0.0) < 2.0 * (alone.metrics["tpot_mean_s"] or 0.0)


def test_a_misspelt_model_in_the_mapping_is_refused_with_a_suggestion() -> None:
    wrong = replace(design(), mapping=replace(design().mapping, models={"nemotron-h-4d": ("Mp", "Md")}))
    with pytest.raises(InputError, match="did you mean 'nemotron-h-4b'"):
        simulate(wrong, workload(load_model(HYBRID), load_model(TRANSFORMER)))


def test_an_equal_division_of_the_cache_gives_each_model_a_fixed_part() -> None:
    """Occupancies count the whole memory, whoever may fill it."""
    load = workload(load_model(HYBRID), load_model(TRANSFORMER))
    shared, equal = simulate(design(), load), simulate(design(cache="equal"), load)
    for name in ("kv_occupancy", "state_occupancy", "ttft_mean_s"):
        assert shared.metrics[name] == pytest.approx(equal.metrics[name])
    assert (equal.metrics[f"kv_occupancy@{HYBRID}"] or 0.0) == pytest.approx(
        2.0 * (shared.metrics[f"kv_occupancy@{HYBRID}"] or 0.0)
    )


def test_the_shipped_mix_reads_as_two_models() -> None:
    load = load_workload("mixed-two-models")
    assert [model.name for model in load.models] == ["nemotron-h-8b", "llama-3.1-8b"]
    assert [kind.model_index for kind in load.classes] == [0, 0, 1]
    assert np.isclose(sum(kind.share for kind in load.classes), 1.0)


def test_what_several_models_leave_out_is_refused_by_estimate_and_simulation() -> None:
    plain = workload(load_model(HYBRID), load_model(TRANSFORMER))
    shared = Prefixes(system_tokens=(64,), popularity=(1.0,))
    caching = replace(design(), policy=replace(design().policy, prefix_cache=True))
    turns = replace(plain, prefixes=replace(shared, turns=(0.5, 0.5)))
    for what, load, text in (
        (caching, replace(plain, prefixes=shared), "prefix caches are modelled for one model only"),
        (design(), turns, "sessions of several turns, which are modelled for one model only"),
    ):
        with pytest.raises(InputError, match=text):
            evaluate([what], load, load_calibration("default"))
        with pytest.raises(InputError, match=text):
            simulate(what, load, saturate=False)
