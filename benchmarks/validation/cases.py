"""Seeded configurations: engines, limits, lengths, arrivals and a load, drawn wide of anything that is served.

The sets are disjoint by seed: what is set on `tuning` is judged on `test`.  In `shortest` the shortest prompt is served
first; nothing is tuned on it.  `few-tuning` is for tuning too, with few slots and no limit of memory.  `slice` is short
enough to be simulated again by the tests.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from benchmarks.validation.system import Engine
from hydra_dse.rng import derive
from hydra_dse.workload import Deterministic, JointLengths, Lognormal, Mmpp, Renewal
from hydra_dse.workload.nouns import Arrivals

SEEDS = {"tuning": 11_2024, "test": 77_2025, "shortest": 33_2026, "slice": 55_2027, "few-tuning": 91_2026}
SIZES = {"tuning": 120, "test": 180, "shortest": 18, "slice": 3, "few-tuning": 90}
BANDS = ((0.3, 0.7), (0.7, 0.85), (0.85, 0.95))
POLICIES = ("chunked", "prefill_first", "disaggregated")
BATCHES = (16, 32, 64, 128, 256)
FEW = (2, 3, 4, 6, 8, 12, 16)
BUDGETS = (256, 512, 1024, 2048)
LONGEST_PROMPT, LONGEST_OUTPUT = 8.0, 6.0
"""Longest lengths as multiples of the mean: a request that no memory holds says nothing about queues."""


@dataclass(frozen=True)
class Case:
    """One configuration.

    Attributes:
        name: of the set and its number in it.
        policy: one of `POLICIES`.
        serve: the engine of prompts (colocated: the only one); decode: that of a decode pool.
        shared: whether both pools use one memory.
        max_batch, token_budget: limits of the policy.
        memory_tokens: KV that fits; state_tokens: what a sequence holds besides its tokens.
        lengths: of the requests.
        arrivals: a process of rate 1; load: offered over simulated saturation rate.
    """

    name: str
    policy: str
    serve: Engine
    decode: Engine
    shared: bool
    max_batch: int
    token_budget: int
    memory_tokens: float
    state_tokens: float
    lengths: JointLengths
    arrivals: Arrivals
    load: float
    scheduling: str = "fcfs"

    @property
    def made_of(self) -> str:
        """Everything that decides its results."""
        return repr(self)

    @property
    def band(self) -> int:
        """Index of the band of its load."""
        return next(i for i, (_, high) in enumerate(BANDS) if self.load <= high)

    @property
    def arrival_kind(self) -> str:
        """Poisson, gamma, regular or phases."""
        return arrivals_kind(self.arrivals)

    @property
    def memory_bound(self) -> bool:
        """Whether the generator gave it less memory than its batch limit asks for."""
        return self.memory_tokens < 1e11


def cases(which: str, count: int | None = None) -> list[Case]:
    """The first configurations of a set, in the order in which they are simulated."""
    return [_drawn(which, number) for number in range(SIZES[which] if count is None else count)]


def arrivals_kind(arrivals: Arrivals) -> str:
    """Poisson, gamma, regular or phases."""
    if isinstance(arrivals, Mmpp):
        return "phases"
    if isinstance(arrivals, Deterministic):
        return "regular"
    return "Poisson" if isinstance(arrivals, Renewal) and arrivals.cv == 1.0 else "gamma"


def _drawn(which: str, number: int) -> Case:
    drawn = _case(which, number)
    if which != "few-tuning":
        return drawn
    return replace(drawn, max_batch=int(derive(5, "few", number).choice(FEW)), memory_tokens=1e12)


def _case(which: str, number: int) -> Case:
    rng = derive(SEEDS[which], "case", number)
    policy = POLICIES[number % 3]
    prompt, output = float(np.exp(rng.uniform(np.log(100), np.log(2000)))), float(rng.uniform(40, 500))
    lengths = JointLengths(
        Lognormal(prompt, float(rng.uniform(0.4, 1.5)), maximum=LONGEST_PROMPT * prompt),
        Lognormal(output, float(rng.uniform(0.3, 1.2)), maximum=LONGEST_OUTPUT * output),
    )
    max_batch = int(rng.choice(BATCHES))
    budgets = [budget for budget in BUDGETS if policy == "disaggregated" or budget >= 1.5 * max_batch]
    state = float(rng.choice([0.0, 200.0, 800.0]))
    memory = _memory(rng, lengths, max_batch, state) if rng.random() < 0.3 else 1e12
    low, high = BANDS[(number // 3) % 3]
    return Case(
        name=f"{which}-{number:03d}",
        policy=policy,
        serve=_engine(rng),
        decode=_engine(rng),
        shared=bool(rng.random() < 0.6),
        max_batch=max_batch,
        token_budget=int(rng.choice(budgets)),
        memory_tokens=memory,
        state_tokens=state,
        lengths=lengths,
        arrivals=drawn_arrivals(rng),
        load=float(rng.uniform(low, high)),
        scheduling="sjf" if which == "shortest" else "fcfs",
    )


def _engine(rng: np.random.Generator) -> Engine:
    weights_s = float(rng.uniform(2e-3, 15e-3))
    return Engine(
        t0=float(rng.uniform(2e-4, 1e-3)),
        tw=weights_s,
        tc=weights_s / float(rng.uniform(80, 500)),
        tkv=float(rng.uniform(4e-9, 50e-9)),
        tssm=float(rng.uniform(0.0, 10e-6)),
        tat=float(rng.uniform(0.2e-9, 2e-9)),
    )


def _memory(rng: np.random.Generator, lengths: JointLengths, max_batch: int, state: float) -> float:
    """Room for a share of the batch limit, and for the longest request."""
    context = lengths.prompt.mean + lengths.output.mean / 2.0 + state  # type: ignore[attr-defined]
    longest = LONGEST_PROMPT * lengths.prompt.mean + LONGEST_OUTPUT * lengths.output.mean + state  # type: ignore[attr-defined]
    return float(max(rng.uniform(0.3, 0.9) * max_batch * context, 1.5 * longest))


def drawn_arrivals(rng: np.random.Generator) -> Arrivals:
    """A process of rate 1: four in ten Poisson, three gamma of CV 0.5 to 3, one regular, two in phases."""
    kind = rng.random()
    if kind < 0.4:
        return Renewal(1.0, 1.0)
    if kind < 0.7:
        return Renewal(1.0, float(np.exp(rng.uniform(np.log(0.5), np.log(3.0)))))
    if kind < 0.78:
        return Deterministic(1.0)
    busy, calm = float(rng.uniform(1.3, 1.8)), float(rng.uniform(0.2, 0.7))
    arrivals_per_phase = float(np.exp(rng.uniform(np.log(10), np.log(100))))
    # Shares of time such that the mean rate is 1; sojourns in mean gaps, the busy one as drawn.
    share = (1.0 - calm) / (busy - calm)
    stay = arrivals_per_phase / busy
    return Mmpp((busy, calm), (stay, stay * (1.0 - share) / share))
