"""Estimates of configurations: the profile that has their iteration times, and the estimator on it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from benchmarks.validation.cases import Case
from benchmarks.validation.system import EnginePool, OneMemory
from hydra_dse.estimator import estimate
from hydra_dse.profile.nouns import Contention, PoolModel, ServiceProfile
from hydra_dse.workload.points import thin


@dataclass(frozen=True)
class Estimated:
    """Metrics by name, and their 90 % intervals."""

    values: dict[str, float]
    low: dict[str, float]
    high: dict[str, float]


def profile_of(case: Case) -> ServiceProfile:
    """The service profile of a configuration; memory counts in tokens of KV."""
    apart = case.policy == "disaggregated"
    serve, decode = EnginePool(case.serve), EnginePool(case.decode)
    pools: dict[str, PoolModel] = {"prefill": serve, "decode": decode} if apart else {"serve": serve}
    contention: Contention | None = OneMemory(serve, decode, case.shared) if apart else None
    zero = np.zeros(1)
    return ServiceProfile(
        serving="disaggregated" if apart else "colocated",
        batching="prefill_first" if case.policy == "prefill_first" else "chunked",
        scheduling=case.scheduling,
        pools=pools,
        contention=contention,
        max_batch=np.array([float(case.max_batch)]),
        token_budget=np.array([float(case.token_budget)]),
        cache_bytes=np.array([case.memory_tokens]),
        kv_bytes_per_token=np.ones(1),
        state_bytes_per_sequence=np.array([case.state_tokens]),
        block_tokens=np.array([16.0]),
        handoff_s_per_token=zero,
        handoff_s_per_sequence=zero,
        static_power_w=zero + 100.0,
        area_mm2=zero + 1000.0,
        interposer_mm2=zero + 2000.0,
        violations=((),),
    )


def estimated(case: Case, simulated_saturation_per_s: float) -> Estimated:
    """The estimate at the rate that was simulated."""
    arrivals = case.arrivals.with_rate(case.load * simulated_saturation_per_s)
    table = estimate(profile_of(case), arrivals.statistics(), thin(case.lengths.points()))
    return Estimated(
        {name: float(values[0]) for name, values in table.metrics.items()},
        {name: float(values[0]) for name, values in table.low.items()},
        {name: float(values[0]) for name, values in table.high.items()},
    )
