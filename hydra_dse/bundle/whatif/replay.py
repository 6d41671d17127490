"""What-if on a foreign trace: its recorded graph of dependencies replayed with durations scaled.

Graph: an event waits for the one before it on its stream, and for whatever ended last before it began on any other
stream of its rank among those that it cannot have overlapped (the last end not after its start, within `NEAR_US`);
collectives of one name and `External id` that
run at the same time on different ranks move their data when the last rank is there.  What is left between that instant
and the recorded start is delay that stays.  Durations scale by the resource of the event: `noi` communication, `hbm`
copies, `compute` kernels.

Limits: what was hidden stays unknown (a kernel bound by memory scales with `compute`), batches and queues stay as they
were recorded, and a dependency that never bound in the recording is not seen.
"""

from __future__ import annotations

import bisect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from hydra_dse.bundle import conventions as words
from hydra_dse.bundle.metrics.measured import COMMUNICATION
from hydra_dse.errors import Fault, InputError

NEAR_US = 5.0
"""An end at most so long before a start is taken for what was waited for."""
LIMITS = (
    "kernels scale with compute as a whole: the trace does not say which of them wait for memory",
    "a collective without an equal External id, or at no common moment on its ranks (clocks that differ), scales as a "
    "whole, its wait for the last rank included",
    "batches, queues and arrivals stay as recorded",
    "a dependency that did not bind when the trace was recorded is not seen",
)
RESOURCES = ("compute", "noi", "hbm")


@dataclass(frozen=True)
class Node:
    """An event of the graph; times in µs.

    Attributes:
        after: indices that it waits for.
        delay: what lay between.
        group: what its collective has in common on all ranks.
    """

    rank: int
    resource: str
    start: float
    duration: float
    after: tuple[int, ...]
    delay: float
    group: object

    @property
    def end(self) -> float:
        """When it ended."""
        return self.start + self.duration


def graph_of(ranks: Sequence[Sequence[Mapping[str, Any]]]) -> list[Node]:
    """The events of all ranks in order of their starts, with what each waited for.

    Args:
        ranks: kernels and copies of each, as `timed_events` reads them.

    Raises:
        InputError: there is no kernel or copy.
    """
    rows = [
        (event["ts"], rank, event)
        for rank, events in enumerate(ranks)
        for event in events
        if event["cat"] in (words.KERNEL, words.MEMCPY)
    ]
    if not rows:
        raise InputError(Fault("the trace has neither kernels nor copies"))
    rows.sort(key=lambda row: (row[0], row[1], row[2].get("tid", -1)))
    nodes: list[Node] = []
    last_on: dict[tuple[int, int], int] = {}
    ends: dict[int, list[tuple[float, int]]] = {}
    for start, rank, event in rows:
        stream = (rank, event.get("tid", -1))
        after = _before_on_stream(nodes, last_on.get(stream), start)
        other = _ended_before(ends.get(rank, []), start)
        if other is not None:
            after.add(other)
        ready = max((nodes[index].end for index in after), default=0.0)
        node = Node(rank, _resource(event), start, event["dur"], tuple(sorted(after)), start - ready, _group(event))
        if stream not in last_on or node.end >= nodes[last_on[stream]].end:
            last_on[stream] = len(nodes)
        bisect.insort(ends.setdefault(rank, []), (node.end, len(nodes)))
        nodes.append(node)
    return _matched(nodes)


def recorded(nodes: Sequence[Node]) -> float:
    """From the first start to the last end as recorded, in µs."""
    return max(node.end for node in nodes) - nodes[0].start


def _before_on_stream(nodes: Sequence[Node], last: int | None, start: float) -> set[int]:
    """What an event waits for on its stream: the event before it, or what that one waited for if they overlap."""
    if last is None:
        return set()
    return {last} if nodes[last].end <= start else set(nodes[last].after)


def _matched(nodes: list[Node]) -> list[Node]:
    """Nodes whose group is kept only where it is one collective: once a rank, and at one moment on all of them.

    The order of starts is then an order of dependencies too: the last rank of a collective starts before it ends.
    """
    members: dict[object, list[Node]] = {}
    for node in nodes:
        if node.group is not None:
            members.setdefault(node.group, []).append(node)
    whole = {
        group
        for group, each in members.items()
        if len({node.rank for node in each}) == len(each)
        and max(node.start for node in each) < min(node.end for node in each)
    }
    return [node if node.group in whole else replace(node, group=None) for node in nodes]


def _ended_before(ends: list[tuple[float, int]], start: float) -> int | None:
    at = bisect.bisect_right(ends, (start, 1 << 62)) - 1
    return ends[at][1] if at >= 0 and start - ends[at][0] <= NEAR_US else None


def _resource(event: Mapping[str, Any]) -> str:
    if event["cat"] == words.MEMCPY:
        return "hbm"
    return "noi" if COMMUNICATION.search(str(event["name"])) else "compute"


def _group(event: Mapping[str, Any]) -> object:
    """What matches one collective across ranks; None where it does not say."""
    number = event["args"].get("External id")
    if _resource(event) != "noi" or type(number) not in (int, str):
        return None
    return (event["name"], number)


def replay(nodes: Sequence[Node], factors: Mapping[str, float]) -> float:
    """Duration in µs from the first start to the last end, with rates of resources scaled by `factors`."""
    members: dict[object, list[int]] = {}
    for index, node in enumerate(nodes):
        if node.group is not None:
            members.setdefault(node.group, []).append(index)
    ends = [0.0] * len(nodes)
    for index, node in enumerate(nodes):
        group = members.get(node.group, [index])
        if len(group) == 1:
            ends[index] = _ready(node, ends) + node.duration / factors.get(node.resource, 1.0)
        elif index == group[-1]:
            _end_together(nodes, group, ends, factors.get(node.resource, 1.0))
    return max(ends) - nodes[0].start


def _ready(node: Node, ends: Sequence[float]) -> float:
    return max(ends[each] for each in node.after) + node.delay if node.after else node.start


def _end_together(nodes: Sequence[Node], group: Sequence[int], ends: list[float], factor: float) -> None:
    """A collective moves data once its last rank is there: what the others spent before was waiting."""
    last = nodes[group[-1]]
    end = max(_ready(nodes[each], ends) for each in group) + last.duration / factor
    for each in group:
        ends[each] = end + nodes[each].end - last.end
