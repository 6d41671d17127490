"""A workload: which requests arrive, when, how long they are, and what their users were promised."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, TypeAlias

import numpy as np

from hydra_dse.model.blocks import Model
from hydra_dse.workload.prefixes import Prefixes
from hydra_dse.workload.skew import RoutingSkew

if TYPE_CHECKING:
    from numpy.typing import NDArray

FloatArray: TypeAlias = "NDArray[np.float64]"
IntArray: TypeAlias = "NDArray[np.int64]"


@dataclass(frozen=True)
class Requests:
    """Sampled or recorded requests in order of arrival; all arrays have one entry per request.

    Attributes:
        arrival_s: arrival time from the start.
        prompt_tokens, output_tokens: lengths, each at least 1.
        class_index: index into `Workload.classes`.
        blocks: optional prefix block ids per request, for prefix caching; those of the prompt, of sampled sessions
            also of the output.  An id names its block and all before it.
        block_tokens: tokens of a block, 0 where there are none.
        parent: index of the turn before in the same session, −1 for the first; None where requests stand alone.
        think_s: time from the end of that turn to this request's arrival; its `arrival_s` is then what it would be
            if answers took no time.
        turn: number of the request in its session, from 0.
    """

    arrival_s: FloatArray
    prompt_tokens: IntArray
    output_tokens: IntArray
    class_index: IntArray
    blocks: tuple[tuple[int, ...] | IntArray, ...] | None = None
    block_tokens: int = 0
    parent: IntArray | None = None
    think_s: FloatArray | None = None
    turn: IntArray | None = None

    def __len__(self) -> int:
        return len(self.arrival_s)


@dataclass(frozen=True)
class LengthPoints:
    """Joint length distribution as weighted points (weights sum to 1): the input of moments and size bins.

    Attributes:
        cached_tokens: of the prompt, found in a prefix cache and not computed; None = none.
    """

    prompt_tokens: FloatArray
    output_tokens: FloatArray
    weight: FloatArray
    cached_tokens: FloatArray | None = None

    def mean(self, values: FloatArray) -> float:
        """Weighted mean of any function evaluated at the points."""
        return float(np.dot(self.weight, values))


@dataclass(frozen=True)
class ArrivalStatistics:
    """What an analytical model needs of an arrival process.

    Attributes:
        rate_per_s: mean rate.
        cv: coefficient of variation of the gaps (1 for Poisson, 0 for deterministic).
        phases: `((rate_per_s, mean_sojourn_s), …)` of a two-state MMPP, empty otherwise.
    """

    rate_per_s: float
    cv: float = 1.0
    phases: tuple[tuple[float, float], ...] = ()


@dataclass(frozen=True)
class Slo:
    """Service level: share `percentile` of requests must meet both bounds (None = no bound)."""

    ttft_s: float | None = None
    tpot_s: float | None = None
    percentile: float = 0.9


class Lengths(Protocol):
    """Joint distribution of prompt and output lengths: fixed, lognormal, empirical, or a user's own."""

    def sample(self, count: int, rng: np.random.Generator) -> tuple[IntArray, IntArray]:
        """Draw `count` pairs (prompt tokens, output tokens), each at least 1."""

    def points(self) -> LengthPoints:
        """The distribution as weighted points, for moments and size bins."""


class Arrivals(Protocol):
    """An arrival process: regular, Poisson, gamma, MMPP, piecewise, diurnal, replayed, or a user's own."""

    def sample(self, count: int, rng: np.random.Generator) -> FloatArray:
        """Arrival times of `count` requests in s, ascending, from 0."""

    def statistics(self) -> ArrivalStatistics:
        """Rate and burstiness for analytical models."""

    def with_rate(self, rate_per_s: float) -> Arrivals:
        """The same process, time-scaled to another mean rate."""


@dataclass(frozen=True)
class RequestClass:
    """A class of requests: its share of arrivals, lengths, promise and priority (0 = first)."""

    name: str
    lengths: Lengths
    share: float = 1.0
    slo: Slo = field(default_factory=Slo)
    priority: int = 0
    model_index: int = 0


@dataclass(frozen=True)
class Shift:
    """A change of the mix or the rate at a given time.

    Attributes:
        at_s: when it happens, from the start of the run (or of the cycle).
        shares: shares of the classes from then on, in the order of `Workload.classes`; None keeps them.
        rate_factor: arrival rate from then on, relative to the workload's own.
    """

    at_s: float
    shares: tuple[float, ...] | None = None
    rate_factor: float = 1.0


@dataclass(frozen=True)
class Workload:
    """Requests of one or several classes for one or several models.

    Attributes:
        models: the models served, their mixtures routed as `routing` says; a class names one by index.
        classes: with shares that sum to 1.
        replay: recorded requests with their own lengths; when given they replace sampling (and `arrivals` is a
            `Replay` of the same times).
        source: where its statistics come from.
        shifts: changes of mix and rate, in order of time; each holds until the next.
        cycle_s: when the shifts start again from the beginning; None = the last one holds for ever.
        prefixes: shared system prompts and sessions of sampled requests; the rate of the arrivals counts turns.
        routing: how unevenly tokens choose among experts, as applied to `models`.
    """

    name: str
    models: tuple[Model, ...]
    arrivals: Arrivals
    classes: tuple[RequestClass, ...]
    replay: Requests | None = field(default=None, compare=False, repr=False)
    source: str = ""
    shifts: tuple[Shift, ...] = ()
    cycle_s: float | None = None
    prefixes: Prefixes | None = None
    routing: RoutingSkew = field(default_factory=RoutingSkew)

    @property
    def has_prefixes(self) -> bool:
        """Whether requests say what they share."""
        recorded = self.replay
        if recorded is not None:
            return recorded.blocks is not None and recorded.block_tokens > 0
        return self.prefixes is not None

    @property
    def has_sessions(self) -> bool:
        """Whether sampled requests are turns of sessions of more than one."""
        return self.replay is None and self.prefixes is not None and len(self.prefixes.turns) > 1

    @property
    def promises(self) -> bool:
        """Whether any class has an SLO."""
        return any(kind.slo.ttft_s is not None or kind.slo.tpot_s is not None for kind in self.classes)
