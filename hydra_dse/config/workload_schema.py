"""Sections of a workload file, and their turn into the nouns of `hydra_dse.workload`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag, model_validator

from hydra_dse import extensions
from hydra_dse.config.faults import at_key
from hydra_dse.config.fields import (
    Count,
    Flag,
    Name,
    NonNegativeNumber,
    PositiveCount,
    PositiveNumber,
    Rate,
    RateOrZero,
    Seconds,
    Section,
    Share,
    Text,
)
from hydra_dse.config.lengths_schema import ColumnsSection, LengthsField
from hydra_dse.config.prefix_schema import PrefixesSection
from hydra_dse.workload.added import added_process
from hydra_dse.workload.arrivals import Deterministic, Mmpp, Renewal, poisson
from hydra_dse.workload.nouns import Arrivals
from hydra_dse.workload.traces.record import MAX_ROWS
from hydra_dse.workload.varying import Diurnal, Piecewise

PositiveSeconds = Annotated[Seconds, Field(gt=0)]


class FixedRate(Section):
    """One request every interval: `rate` or `interval`."""

    process: Literal["deterministic"]
    rate: Rate | None = None
    interval: PositiveSeconds | None = None

    @model_validator(mode="after")
    def _one_of_both(self) -> FixedRate:
        if (self.rate is None) == (self.interval is None):
            raise at_key("rate", "give either rate or interval")
        return self


class Poisson(Section):
    """Independent arrivals."""

    process: Literal["poisson"]
    rate: Rate


class Gamma(Section):
    """Independent gamma gaps; `cv` above 1 is burstier than Poisson."""

    process: Literal["gamma"]
    rate: Rate
    cv: Annotated[PositiveNumber, Field(le=100)]


class PhaseSection(Section):
    """One state of an MMPP, or one step of a piecewise rate."""

    rate: RateOrZero
    duration: PositiveSeconds


class Modulated(Section):
    """Two-state MMPP; `duration` of a phase is its mean; `rate` rescales time to that mean rate."""

    process: Literal["mmpp"]
    phases: Annotated[tuple[PhaseSection, ...], Field(min_length=2, max_length=2)]
    rate: Rate | None = None

    @model_validator(mode="after")
    def _not_silent(self) -> Modulated:
        _some_rate(self.phases, "phases")
        return self


class Steps(Section):
    """Rates that follow each other and repeat; `rate` rescales them to that mean."""

    process: Literal["piecewise"]
    steps: Annotated[tuple[PhaseSection, ...], Field(min_length=1, max_length=10_000)]
    rate: Rate | None = None
    cv: Annotated[PositiveNumber, Field(le=100)] = 1.0

    @model_validator(mode="after")
    def _not_silent(self) -> Steps:
        _some_rate(self.steps, "steps")
        return self


class Wave(Section):
    """A sinusoidal rate around a mean."""

    process: Literal["diurnal"]
    rate: Rate
    amplitude: Share = 0.5
    period: PositiveSeconds = 86400.0
    phase: Seconds = 0.0
    cv: Annotated[PositiveNumber, Field(le=100)] = 1.0


class Recorded(Section):
    """Replay of a trace: its arrivals, and its lengths unless `lengths: classes` draws those from the classes."""

    process: Literal["trace"] = "trace"
    trace: Name
    rate: Rate | None = None
    format: Literal["azure", "burstgpt", "vidur", "csv", "mooncake", "bailian", "servegen"] | None = None
    columns: ColumnsSection | None = None
    limit: Annotated[PositiveCount, Field(le=MAX_ROWS)] = MAX_ROWS
    lengths: Literal["trace", "classes"] = "trace"
    keep_start: Flag = False
    sessions: Flag = False
    answer_time_per_token: Annotated[Seconds, Field(ge=0)] = 0.0

    @model_validator(mode="after")
    def _timed(self) -> Recorded:
        if self.columns is not None and self.columns.arrival is None:
            raise at_key("columns", "a replayed trace needs the name of its arrival column")
        if self.keep_start and self.sessions:
            raise at_key("keep_start", "sessions begin at 0 s: leave out keep_start or sessions")
        return self


class AddedProcess(Section):
    """A process that another package adds to the group `hydra_dse.arrivals`; `options` are its own."""

    process: Name
    rate: Rate
    options: dict[Name, float | bool | str] = Field(default_factory=dict)


STATIONARY = ("deterministic", "poisson", "gamma", "mmpp")
PROCESSES = ("deterministic", "poisson", "gamma", "mmpp", "piecewise", "diurnal", "trace")
ADDED = "added"
"""The tag of processes of other packages."""


def _process_of(value: Any) -> str | None:
    if not isinstance(value, Mapping):
        return ADDED if isinstance(value, AddedProcess) else str(getattr(value, "process", "")) or None
    named = "trace" if "trace" in value and "process" not in value else value.get("process")
    return ADDED if named not in PROCESSES and named in extensions.names(extensions.ARRIVALS) else named


ArrivalsSection = Annotated[
    Annotated[FixedRate, Tag("deterministic")]
    | Annotated[Poisson, Tag("poisson")]
    | Annotated[Gamma, Tag("gamma")]
    | Annotated[Modulated, Tag("mmpp")]
    | Annotated[Steps, Tag("piecewise")]
    | Annotated[Wave, Tag("diurnal")]
    | Annotated[Recorded, Tag("trace")]
    | Annotated[AddedProcess, Tag(ADDED)],
    Discriminator(
        _process_of,
        custom_error_type="choice_at_key",
        custom_error_message="choice",
        custom_error_context={"key": "process", "choices": ",".join(PROCESSES)},
    ),
]


class SloSection(Section):
    """Service level: the share `percentile` of requests must meet both bounds."""

    ttft: PositiveSeconds | None = None
    tpot: PositiveSeconds | None = None
    percentile: Annotated[Share, Field(gt=0)] = 0.9


class ClassSection(Section):
    """One class of requests."""

    name: Name
    share: NonNegativeNumber = 1.0
    lengths: LengthsField | None = None
    slo: SloSection | None = None
    priority: Count = 0
    model: Name | None = None


class ShiftSection(Section):
    """A change of mix or rate."""

    at: Seconds
    shares: dict[str, NonNegativeNumber] | None = None
    rate_factor: NonNegativeNumber = 1.0


class RoutingSection(Section):
    """How unevenly tokens choose among experts: a Zipf exponent, or shares by expert (or a list per sparse layer)."""

    zipf: Annotated[NonNegativeNumber, Field(le=5)] | None = None
    shares: Annotated[tuple[NonNegativeNumber, ...], Field(min_length=1, max_length=4096)] | None = None
    layer_shares: Annotated[tuple[tuple[NonNegativeNumber, ...], ...], Field(min_length=1, max_length=1024)] | None = (
        None
    )

    @model_validator(mode="after")
    def _one_of_three(self) -> RoutingSection:
        given = [name for name in ("zipf", "shares", "layer_shares") if getattr(self, name) is not None]
        if len(given) != 1:
            raise at_key(given[-1] if given else "zipf", "give one of zipf, shares and layer_shares")
        return self


class WorkloadSection(Section):
    """A workload file."""

    name: Name | None = None
    source: Text = ""
    note: Text = ""
    model: Name | None = None
    arrivals: ArrivalsSection
    lengths: LengthsField | None = None
    slo: SloSection | None = None
    classes: tuple[ClassSection, ...] = ()
    shifts: tuple[ShiftSection, ...] = ()
    cycle: PositiveSeconds | None = None
    prefixes: PrefixesSection | None = None
    routing: RoutingSection | None = None

    @model_validator(mode="after")
    def _complete(self) -> WorkloadSection:
        recorded = isinstance(self.arrivals, Recorded) and self.arrivals.lengths == "trace"
        if not recorded and self.lengths is None and not self.classes:
            raise at_key("lengths", "missing key 'lengths'; give lengths, or classes with lengths")
        names = [kind.name for kind in self.classes]
        if len(set(names)) < len(names):
            raise at_key("classes", f"two classes share a name; got {', '.join(names)}")
        if self.classes and sum(kind.share for kind in self.classes) <= 0:
            raise at_key("classes", "the shares sum to 0; at least one must be above 0")
        for kind in self.classes:
            if not recorded and self.lengths is None and kind.lengths is None:
                raise at_key("classes", f"class {kind.name!r} has no lengths")
        for shift in self.shifts:
            unknown = [name for name in shift.shares or {} if name not in names]
            if unknown:
                raise at_key("shifts", f"no class called {unknown[0]!r}; classes: {', '.join(names) or 'none'}")
            if shift.shares is not None and sum(shift.shares.values()) <= 0:
                raise at_key("shifts", "the shares of a shift sum to 0; at least one must be above 0")
        if self.prefixes is not None:
            self._stationary()
        return self

    def _stationary(self) -> None:
        """Prefixes are of sampled requests that do not change in time."""
        if isinstance(self.arrivals, (Recorded, Steps, Wave)):
            raise at_key("prefixes", f"go with {', '.join(STATIONARY)} arrivals, not with {self.arrivals.process}")
        if self.shifts:
            raise at_key("prefixes", "do not go with shifts; drop one of them")


def process_of(section: ArrivalsSection) -> Arrivals:
    """The arrival process of a section that is no trace."""
    if isinstance(section, FixedRate):
        return Deterministic(section.rate if section.rate is not None else 1 / (section.interval or 1.0))
    if isinstance(section, Poisson):
        return poisson(section.rate)
    if isinstance(section, Gamma):
        return Renewal(section.rate, section.cv)
    if isinstance(section, AddedProcess):
        return added_process(section.process, section.rate, section.options)
    if isinstance(section, Wave):
        return Diurnal(section.rate, section.amplitude, section.period, section.phase, section.cv)
    if isinstance(section, Modulated):
        first, second = section.phases
        process: Arrivals = Mmpp((first.rate, second.rate), (first.duration, second.duration))
    elif isinstance(section, Steps):
        rates = tuple(step.rate for step in section.steps)
        process = Piecewise(rates, tuple(step.duration for step in section.steps), section.cv)
    else:
        raise TypeError(type(section).__name__)
    return process.with_rate(section.rate) if section.rate is not None else process


def _some_rate(phases: tuple[PhaseSection, ...], key: str) -> None:
    if max(phase.rate for phase in phases) <= 0:
        raise at_key(key, "all rates are 0; at least one must be above 0")
