"""The profile of one run, the same for every vendor: what ran, on how much of which chip, and how fast.

A reader of a vendor's format fills it, the model of a chip fills it, and metrics read nothing else.  What a source
does not say stays None (or empty); a run that failed is a profile with `failure` and without a rate.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

KINDS = ("measured", "estimate", "vendor-claim", "plan", "modelled")
MODES = ("resident", "streaming", "sections", "pipelined", "kernels")
PHASES = ("training", "prefill", "decode", "serving")


@dataclass(frozen=True)
class ModelShape:
    """A decoder stack by its widths.

    Attributes:
        name: as the source calls it.
        layers, hidden, heads, vocabulary: None where not stated.
        kv_width: width of all keys (and of all values), None = `hidden`.
        ffn: inner width of the feed-forward part, None = 4 × hidden.
        matrices: of the feed-forward part: 2 (plain) or 3 (gated).
    """

    name: str = ""
    layers: int | None = None
    hidden: int | None = None
    heads: int | None = None
    kv_width: int | None = None
    ffn: int | None = None
    matrices: int = 2
    vocabulary: int | None = None


@dataclass(frozen=True)
class Unit:
    """A part of the machine's work that has resources of its own: a kernel, a section, a stage, a chip of a pipeline.

    Attributes:
        section: units of one section run side by side, sections in turn; empty where there is one only.
        stage: position in a pipeline, None where there is none.
        resources: units of each resource class given to it.
        rate_per_s: samples per second it could do alone.
        compute_rate_per_s, transmission_rate_per_s: the same by cause, where the source tells them apart.
        time: of one pass, in the profile's `time_unit`.
        utilization: share of its resources that compute, 0–1.
    """

    name: str
    section: str = ""
    stage: int | None = None
    resources: Mapping[str, float] = field(default_factory=dict)
    rate_per_s: float | None = None
    compute_rate_per_s: float | None = None
    transmission_rate_per_s: float | None = None
    time: float | None = None
    utilization: float | None = None

    @property
    def speed(self) -> float | None:
        """Rate, or the inverse of the time; None where neither is known."""
        if self.rate_per_s is not None:
            return self.rate_per_s
        return 1.0 / self.time if self.time else None


@dataclass(frozen=True)
class MemoryLevel:
    """A memory that a run used.

    Attributes:
        on_chip: whether it is part of the chip.
        capacity_bytes, used_bytes: of the fullest instance.
        bandwidth_bytes_per_s: peak, of all chips of the run together.
        traffic_bytes_per_s: what went through it on average, of all chips together.
    """

    name: str
    on_chip: bool
    capacity_bytes: float | None = None
    used_bytes: float | None = None
    bandwidth_bytes_per_s: float | None = None
    traffic_bytes_per_s: float | None = None


@dataclass(frozen=True)
class Profile:
    """One run, compiled program, estimate or plan.

    Attributes:
        name: of the run or report.
        platform: chip by its name in the hardware library, or as the source calls it.
        chips: chips of the run.
        mode: how the chip executes: one of `MODES`, or empty.
        phase: one of `PHASES`.
        kind: one of `KINDS`.
        precision: format, or the name of a mixed-precision configuration.
        batch: samples (sequences) of a step over all chips.
        sequence: tokens of a sequence (prompt tokens when serving).
        output_tokens: generated per request when serving.
        parallelism: `"data"`, `"tensor"`, `"pipeline"`, `"weight-streaming"`, or empty.
        micro_batches: per step and pipeline.
        replicas: pipelines side by side.
        layout: layers on each chip of a pipeline.
        configuration: what else tells runs apart (compiler mode, framework).
        samples_per_s, tokens_per_s: of the whole machine; tokens count prompt and output.
        rate_unit: what a sample is, where it is not a sequence.
        compute_rate_per_s, transmission_rate_per_s: of the whole machine, as stated by a compiler.
        allocation: share of the units in use as the source prints it, by resource.
        utilization: share of the used units that compute, as printed.
        step_s, host_s, device_s: time of a step, of its host part and of its device part.
        ttft_s: time to the first token.
        sections: number of sections.
        energy_j: of a step.
        units: parts with resources of their own.
        totals: units of each resource class on the chip (100 where the source gives percentages).
        time_unit: of `Unit.time`: `"s"` or `"cycles"`.
        memory: levels, on-chip first.
        peak_flops_per_s: of one chip at the precision, None = the platform's.
        flops_per_sample: where it is known beside the shape's formula.
        basis: what the rate of a modelled chip rests on: parameters with their intervals.
        failure: why there is no rate; empty for a run that worked.
        source, line: file (or citation) and line.
    """

    name: str
    platform: str
    chips: int = 1
    mode: str = ""
    phase: str = "training"
    kind: str = "measured"
    model: ModelShape = field(default_factory=ModelShape)
    precision: str = ""
    batch: float | None = None
    sequence: int | None = None
    output_tokens: int | None = None
    parallelism: str = ""
    micro_batches: int | None = None
    replicas: int | None = None
    layout: tuple[int, ...] = ()
    configuration: str = ""
    samples_per_s: float | None = None
    tokens_per_s: float | None = None
    rate_unit: str = ""
    compute_rate_per_s: float | None = None
    transmission_rate_per_s: float | None = None
    allocation: Mapping[str, float] = field(default_factory=dict)
    utilization: float | None = None
    step_s: float | None = None
    host_s: float | None = None
    device_s: float | None = None
    ttft_s: float | None = None
    sections: int | None = None
    energy_j: float | None = None
    units: tuple[Unit, ...] = ()
    totals: Mapping[str, float] = field(default_factory=dict)
    time_unit: str = "s"
    memory: tuple[MemoryLevel, ...] = ()
    peak_flops_per_s: float | None = None
    flops_per_sample: float | None = None
    basis: str = ""
    failure: str = ""
    source: str = ""
    line: int | None = None

    @property
    def rate(self) -> float | None:
        """Throughput that runs are compared by: samples, else tokens, per second."""
        return self.samples_per_s if self.samples_per_s is not None else self.tokens_per_s
