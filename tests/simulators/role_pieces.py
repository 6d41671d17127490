"""Random systems with two pools that share a memory, with and without role states, in both models.

The same iteration times, linear in what an iteration holds, are given to the estimator as a profile and to the
simulator as costs, so that a comparison measures queueing, batching and changes of roles alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from hydra_dse.model.operators import Batch
from hydra_dse.policy import Policy
from hydra_dse.profile.nouns import RoleProfile, ServiceProfile
from hydra_dse.rng import derive
from hydra_dse.workload.nouns import LengthPoints, Requests
from simulators.iteration import Composition, Race, Stretch, Work
from simulators.serving import CacheShape, Outcome, System, run
from simulators.serving.roles import Roles

Array = NDArray[np.float64]
GRID = 1000


@dataclass(frozen=True)
class Times:
    """Seconds of an iteration: `fixed + max(weights, tokens·token) + context·kv + pairs·pair`; memory takes a part."""

    fixed: float
    weights: float
    token: float
    kv: float
    pair: float

    def of(self, decoders: Array, context: Array, tokens: Array, pairs: Array) -> tuple[Array, Array]:
        """Duration, and the share of it that the memory is busy."""
        work = np.maximum(self.weights, (decoders + tokens) * self.token)
        duration = self.fixed + work + context * self.kv + pairs * self.pair
        return duration, np.minimum(1.0, (self.weights + context * self.kv) / duration)


class LinearCost:
    """`IterationCost` of the simulator."""

    windows: tuple[int, ...] = ()

    def __init__(self, times: Times) -> None:
        self.times = times

    def work(self, batch: Composition) -> Work:
        attended = batch.attended
        duration, share = self.times.of(
            np.float64(batch.decode_sequences),
            np.float64(attended.decode_tokens),
            np.float64(batch.prefill_tokens),
            np.float64(attended.prefill_pairs),
        )
        usage = np.array([float(share)])
        return Work(float(duration), batch, (), lambda _: usage)

    def stretch(self, first: Composition, steps: int) -> Stretch:
        durations = [self.work(first.later(step)).duration_s for step in range(steps)]
        return Stretch(first, np.array(durations), np.zeros((0, steps)))

    def beside(self, race: Race) -> Stretch | None:
        return None

    def count(self, work: Work) -> None:
        pass

    def count_stretch(self, stretch: Stretch) -> None:
        pass

    def snapshot(self) -> int:
        return 0

    def reset(self) -> None:
        pass


class LinearPool:
    """`PoolModel` of the estimator, over n systems."""

    def __init__(self, times: tuple[Times, ...]) -> None:
        columns = {f.name: np.array([getattr(one, f.name) for one in times])[:, None] for f in fields(Times)}
        self.times = Times(**columns)  # type: ignore[arg-type]

    def _of(self, batch: Batch) -> tuple[Array, Array]:
        return self.times.of(
            batch.decode_sequences, batch.decode_context_tokens, batch.prefill_tokens, batch.prefill_pairs
        )

    def time_s(self, batch: Batch) -> Array:
        return self._of(batch)[0]

    def share(self, batch: Batch) -> Array:
        return self._of(batch)[1]

    def busy_s(self, batch: Batch) -> Mapping[str, Array]:
        time, share = self._of(batch)
        return {"dies": time, "hbm": time * share, "noi": 0.0 * time}

    def energy_j(self, batch: Batch) -> Array:
        return 50.0 * self.time_s(batch)


@dataclass(frozen=True)
class OneMemory:
    """Max-min sharing of one memory."""

    prefill: LinearPool
    decode: LinearPool

    def speeds(self, prefill: Batch, decode: Batch) -> tuple[Array, Array]:
        first, second = np.broadcast_arrays(self.prefill.share(prefill), self.decode.share(decode))
        over = first + second > 1.0
        one = np.where(over, np.maximum(0.5, 1.0 - second) / np.maximum(first, 1e-12), 1.0)
        two = np.where(over, np.maximum(0.5, 1.0 - first) / np.maximum(second, 1e-12), 1.0)
        return np.minimum(one, 1.0), np.minimum(two, 1.0)


@dataclass(frozen=True)
class Case:
    """A system with its load.

    Attributes:
        states: times of both pools in each role state; one without roles.
        native: index of the state at the start.
        move_s: time of the transfer of a change.
        prompt, output: mean and CV of lengths.
        load: of the saturation that the estimator gives.
    """

    seed: int
    states: tuple[dict[str, Times], ...]
    native: int
    policy: Policy
    move_s: float
    prompt: tuple[float, float]
    output: tuple[float, float]
    load: float

    @property
    def elastic(self) -> bool:
        return len(self.states) > 1


def random_case(seed: int, elastic: bool) -> Case:
    """A system whose pools are about as fast as each other, give or take a factor of two.

    A full prefill iteration has at least twice the tokens at which computing takes as long as reading the weights,
    and brings at most half as many prompts as decode takes.
    """
    rng = derive(seed, "role case", int(elastic))
    while True:
        prompt = (float(np.exp(rng.uniform(np.log(100), np.log(2000)))), float(rng.uniform(0.3, 1.4)))
        batch = int(rng.choice([16, 32, 64]))
        weights, fixed, kv = rng.uniform(2e-3, 1e-2), rng.uniform(2e-4, 1e-3), rng.uniform(4e-9, 3e-8)
        knee = rng.uniform(80, 500)
        budgets = [size for size in (256, 512, 1024, 2048) if 2 * knee <= size <= prompt[0] * batch / 2]
        token = weights / knee
        step_s = fixed + weights + batch * prompt[0] * kv
        factor = np.exp(rng.uniform(np.log(0.5), np.log(1.6)))
        mean = factor * batch * prompt[0] * token / step_s
        if budgets and 15.0 <= mean <= 120.0:
            break
    budget = int(rng.choice(budgets))
    output = (float(mean), float(rng.uniform(0.3, 1.0)))
    decode = Times(fixed, weights, token / 4.0, kv, 0.0)
    prefill = Times(fixed, weights, token, 0.0, rng.uniform(0.0, 0.2) * token / prompt[0])
    units = int(rng.integers(1, 3)) if elastic else 0
    gain, loss = float(rng.uniform(0.25, 0.8)), float(rng.uniform(0.05, 0.3))
    states = tuple(
        {"prefill": _faster(prefill, 1.0 + gain * unit), "decode": _faster(decode, 1.0 - loss * unit)}
        for unit in range(units + 1)
    )
    up = int(rng.integers(2, 7))
    policy = Policy(
        max_batch=batch,
        token_budget=budget,
        task_map="elastic" if elastic else "static",
        role_up_prompts=up,
        role_down_prompts=int(rng.integers(0, min(3, up))),
        role_units_to_prefill=max(units, 1),
    )
    load = float(rng.uniform(0.35, 0.8))
    return Case(seed, states, 0, policy, float(rng.choice([0.0, 0.002, 0.05])), prompt, output, load)


def _faster(times: Times, speed: float) -> Times:
    return replace(times, token=times.token / speed, pair=times.pair / speed, weights=times.weights / speed)


def lengths_of(case: Case, count: int, rng: np.random.Generator) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Independent lognormal prompts and outputs: the same `GRID` sizes again and again, in random order.

    Both models see the same moments, which a sample of some thousand would miss by several percent.
    """
    share = (np.arange(GRID) + 0.5) / GRID
    drawn = []
    for mean, cv in (case.prompt, case.output):
        spread = np.log1p(cv * cv)
        sizes = np.exp(np.log(mean) - spread / 2 + np.sqrt(spread) * ndtri(share))
        drawn.append(rng.permutation(np.resize(np.maximum(1, np.rint(sizes)).astype(np.int64), count)))
    prompt, output = drawn
    return prompt, output


def points_of(case: Case) -> LengthPoints:
    """The same as points."""
    prompt, output = lengths_of(case, GRID, derive(case.seed, "points"))
    return LengthPoints(prompt.astype(float), output.astype(float), np.full(GRID, 1.0 / GRID))


def profile_of(*cases: Case) -> ServiceProfile:
    """Cases with equally many states as one profile."""
    n, size = len(cases), len(cases[0].states)
    pools = [
        {name: LinearPool(tuple(case.states[state][name] for case in cases)) for name in ("prefill", "decode")}
        for state in range(size)
    ]
    native = cases[0].native
    roles = None
    named = {
        name if state == native else f"{name}{state - native:+d}": pool
        for state, both in enumerate(pools)
        for name, pool in both.items()
    }
    if size > 1:
        move = np.array([case.move_s for case in cases])[:, None, None] * np.ones((1, size - 1, 2))
        roles = RoleProfile(
            native=native,
            pools=tuple(pools),
            contention={
                (low, high): OneMemory(pools[low]["prefill"], pools[high]["decode"])
                for low in range(size)
                for high in range(low, size)
            },
            lowest=np.zeros(n, dtype=np.int64),
            highest=np.full(n, size - 1, dtype=np.int64),
            up=np.array([float(case.policy.role_up_prompts) for case in cases]),
            down=np.array([float(case.policy.role_down_prompts) for case in cases]),
            move_bytes=move * 1e12,
            move_s=move,
        )
    ones = np.ones(n)
    return ServiceProfile(
        serving="disaggregated",
        batching="chunked",
        scheduling=cases[0].policy.scheduling,
        pools=named,
        contention=OneMemory(pools[native]["prefill"], pools[native]["decode"]),
        max_batch=np.array([float(case.policy.max_batch) for case in cases]),
        token_budget=np.array([float(case.policy.token_budget) for case in cases]),
        cache_bytes=1e12 * ones,
        kv_bytes_per_token=ones,
        state_bytes_per_sequence=0.0 * ones,
        block_tokens=16.0 * ones,
        handoff_s_per_token=0.0 * ones,
        handoff_s_per_sequence=0.0 * ones,
        static_power_w=100.0 * ones,
        area_mm2=1000.0 * ones,
        interposer_mm2=2000.0 * ones,
        violations=tuple(() for _ in cases),
        task_map=cases[0].policy.task_map,
        roles=roles,
    )


def system_of(case: Case) -> System:
    """A case for the simulator."""
    costs = [{name: LinearCost(times) for name, times in state.items()} for state in case.states]
    flat = {
        name if state == case.native else f"{name}{state - case.native:+d}": cost
        for state, both in enumerate(costs)
        for name, cost in both.items()
    }
    roles = None
    if case.elastic:
        policy = case.policy
        roles = Roles(
            tuple(costs),
            case.native,
            policy.role_up_prompts,
            policy.role_down_prompts,
            lambda before, after: Work(case.move_s),
        )
    return System(case.policy, CacheShape(1e12, 1.0, 0.0), flat, roles=roles)


def simulate(case: Case, rate: float, count: int, replication: int = 0, saturate: bool = False) -> Outcome:
    """One run; with `saturate` all requests wait from the start."""
    rng = derive(case.seed, "run", replication)
    prompt, output = lengths_of(case, count, rng)
    arrival = np.zeros(count) if saturate else np.cumsum(rng.exponential(1.0, count))
    if not saturate:
        arrival = arrival * (count / arrival[-1]) / rate
    return run(system_of(case), Requests(arrival, prompt, output, np.zeros(count, dtype=np.int64)), warmup_share=0.1)
