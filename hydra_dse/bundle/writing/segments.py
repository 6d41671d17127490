"""Where the time of one operator goes: segments, one after the other, that add up to it exactly."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from hydra_dse.bundle.writing import names
from hydra_dse.records import OperatorSpan, PackageLayout


class Segment(NamedTuple):
    """A part of an operator's time."""

    name: str
    start_s: float
    end_s: float
    args: dict[str, object]


def segments_of(span: OperatorSpan, layout: PackageLayout) -> Iterator[Segment]:
    """Yield the segments of an operator.

    From the end of its fixed overhead to the end of its computation, what exceeds the time of its slowest die is
    waiting for operands; it is divided among weights, KV and state by their bytes, since they stream side by side.
    These parts stand before the computation, though in truth they are spread over it.
    """

    def part(name: str, start_s: float, end_s: float, binding: str) -> Segment:
        return Segment(name, start_s, end_s, {"iteration": span.iteration, "binding": binding, "operator": span.name})

    def named(resource: int) -> str:
        return layout.resources[resource].name if resource >= 0 else "latency"

    yield part(names.WAIT, span.start_s, span.acquired_s, "dies of another iteration")
    yield part(f"{names.GATHER}: {span.gather}", span.acquired_s, span.gathered_s, named(span.gather_binding))
    yield part(names.LAUNCH, span.gathered_s, span.began_s, "fixed cost of an operator")
    stalled_s = max(0.0, span.computed_s - span.began_s - span.compute_s)
    at = span.began_s
    read = {"weights": span.weight_bytes, "kv": span.kv_bytes, "state": span.state_bytes}
    total = sum(read.values())
    for operand, amount in read.items():
        if total > 0.0 and amount > 0.0 and stalled_s > 0.0:
            end = at + stalled_s * amount / total
            yield part(f"{names.MEMORY}: {operand}", at, end, named(span.memory_binding))
            at = end
    yield part(names.COMPUTE, at, span.computed_s, f"{span.die} {span.unit}")
    yield part(f"{names.REDUCE}: {span.reduce}", span.computed_s, span.reduced_s, named(span.reduce_binding))
    yield part(names.WRITES, span.reduced_s, span.ended_s, "memory writes")
