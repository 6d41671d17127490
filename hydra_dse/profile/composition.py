"""What one iteration of a pool is made of: where operators run, which bytes move, and where the time goes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from hydra_dse.model.operators import Batch


@dataclass(frozen=True)
class MappedClass:
    """Where the operators of a class run.

    Attributes:
        operator_class: class of operators, as in `mapping.groups` of a design.
        operators: its operators in this model.
        instances: instances of them that run in an iteration.
        die_groups: names of the die groups that run them together.
        dies: dies of these groups.
        split: `tensor` (each die holds a slice of every weight), `replica` (each a share of the rows) or `expert` (each
            some experts whole).
        imbalance: work of the most loaded die over its fair share, of the worst operator (1 = even); of experts in
            the mean over routings.
        resident_share: share of the weights that stays in SRAM and is not streamed.
    """

    operator_class: str
    operators: tuple[str, ...]
    instances: int
    die_groups: tuple[str, ...]
    dies: int
    split: str
    imbalance: float
    resident_share: float


@dataclass(frozen=True)
class OperandBytes:
    """Bytes of one operand in an iteration.

    Attributes:
        operand: `weights`, `kv read`, `kv write`, `state read`, `state write` or `activations`.
        total_bytes: bytes that move: between memory sites and dies, or between dies for `activations`.
        bytes_per_token: the same over the tokens of the iteration.
        site_bytes: bytes by memory site; empty for `activations`, which have none.
    """

    operand: str
    total_bytes: float
    bytes_per_token: float
    site_bytes: Mapping[str, float]


@dataclass(frozen=True)
class LinkBytes:
    """Bytes on one directed link in an iteration.

    Attributes:
        link: `slot→slot`, in the numbers of the topology (of a grid: row by row from 0).
        source: component in the slot that sends.
        target: component in the slot that receives.
        total_bytes: bytes on the link.
        busy_share: share of the iteration in which the link is busy.
        operand_bytes: bytes by operand: `weights`, `kv`, `state`, `activations`.
    """

    link: str
    source: str
    target: str
    total_bytes: float
    busy_share: float
    operand_bytes: Mapping[str, float]


@dataclass(frozen=True)
class ClassTime:
    """Time of the operators of a class in an iteration, all instances; of one batch where several are in flight.

    Attributes:
        operator_class: class of operators.
        compute_s: time of the slowest die.
        memory_s: busy time of the most loaded memory site.
        network_s: busy time of the most loaded link.
        overhead_s: fixed costs of starting operators.
        hops_s: latency of the hops that activations take.
        time_s: of each operator the longest of compute, memory and network, then overhead and hops.
        share: `time_s` over the time of the iteration.
        binding: which of `compute`, `memory`, `network`, `overhead`, `hops` takes most of `time_s`.
    """

    operator_class: str
    compute_s: float
    memory_s: float
    network_s: float
    overhead_s: float
    hops_s: float
    time_s: float
    share: float
    binding: str


@dataclass(frozen=True)
class ResourceTime:
    """What a kind of resource has to do with the time of an iteration.

    Attributes:
        resource: `compute`, `memory`, `network`, `overhead`, `hops`, or `queue` (see `queue_s`).
        bound_s: time in which it is the resource that everything waits for; these sum to the iteration.
        share: `bound_s` over the time of the iteration.
        twice_as_fast_s: time of the iteration if this resource alone were twice as fast; `null` for `queue`.
        saved_share: share of the iteration that this saves; `null` for `queue`.
        most_loaded: the die, memory site or link that works longest.
    """

    resource: str
    bound_s: float
    share: float
    twice_as_fast_s: float | None
    saved_share: float | None
    most_loaded: str


@dataclass(frozen=True)
class Composition:
    """One iteration, in which every sequence of the pool advances once.

    Attributes:
        pool: `serve`, `prefill` or `decode`.
        batch: totals over the sequences of the iteration.
        tokens: tokens that pass through the model.
        batches_in_flight: the iteration runs as so many batches, each with its own weights streamed.
        time_s: the sum of `time_s` of all operator classes, `iteration_overhead_s` and `queue_s`.
        iteration_overhead_s: fixed cost of an iteration.
        queue_s: where several batches are in flight, the time a batch waits for the busiest die, site or link.
        binding: the resource with the largest `bound_s`.
        operator_map: where each class of operators runs.
        bytes: ledger of operands and memory sites.
        links: links that carry anything, the most loaded first.
        times: time by class of operators.
        resources: time by resource, and what speeding each up would bring.
    """

    pool: str
    batch: Batch
    tokens: float
    batches_in_flight: int
    time_s: float
    iteration_overhead_s: float
    queue_s: float
    binding: str
    operator_map: tuple[MappedClass, ...]
    bytes: tuple[OperandBytes, ...]
    links: tuple[LinkBytes, ...]
    times: tuple[ClassTime, ...]
    resources: tuple[ResourceTime, ...]
