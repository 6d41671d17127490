"""The graph of one rank, as the simulator executed it.

Within an iteration the operators of an engine follow each other:

    host → [gather | receive | send] → compute → [reduce | …] → the next operator

A computation also needs what is read for it; reads follow each other in program order from the first operator on,
ahead of the computations.  Writes begin with their computation, and an iteration begins when all of the one before it
on its engine has ended.  What other iterations do to it (queues for dies, shared links) is no dependency; nor is room
in SRAM, which holds reads back, a node.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from hydra_dse.bundle import conventions as words
from hydra_dse.bundle.chakra.nodes import Collective, Node, NodeKind
from hydra_dse.bundle.writing import names
from hydra_dse.bundle.writing.files import nanoseconds

Event = Mapping[str, Any]

AFTER = ("reduce", "combine")
"""Kinds of transfers that follow a computation; all others come before it."""
COLLECTIVES = {
    "gather": Collective.ALL_GATHER,
    "reduce": Collective.REDUCE_SCATTER,
    "dispatch": Collective.ALL_TO_ALL,
    "combine": Collective.ALL_TO_ALL,
}


@dataclass
class _Operator:
    """Events of one operator on this rank."""

    before: list[Event] = field(default_factory=list)
    reads: list[Event] = field(default_factory=list)
    computes: list[Event] = field(default_factory=list)
    writes: list[Event] = field(default_factory=list)
    after: list[Event] = field(default_factory=list)


@dataclass
class _Iteration:
    """Events of one iteration on this rank, by the position of their operator."""

    step: Event
    operators: dict[int, _Operator] = field(default_factory=dict)

    @property
    def engine(self) -> tuple[object, ...]:
        """What runs it."""
        return tuple(self.step["args"][name] for name in ("pool", "engine", "model"))


class RankGraph:
    """Makes the nodes of one rank.

    Args:
        rank: its number.
        groups: ranks of a collective as text → name of the group; new ones are added.
    """

    def __init__(self, rank: int, groups: dict[str, str]) -> None:
        self._rank, self._groups = rank, groups
        self._nodes: list[Node] = []
        self._tails: dict[tuple[object, ...], tuple[int, ...]] = {}

    def nodes(self, events: Iterable[Event]) -> Sequence[Node]:
        """All nodes, each after those it depends on."""
        for iteration in _iterations(events):
            self._iteration(iteration)
        return self._nodes

    def _iteration(self, iteration: _Iteration) -> None:
        step = iteration.step
        waits = self._tails.get(iteration.engine, ())
        host = {**step, "dur": step["args"]["host_s"] * 1e6}
        about = {"is_cpu_op": 1, "num_ops": 0, "tensor_size": 0, "iteration": _number(step)}
        chain: tuple[int, ...] = (self._add(host, NodeKind.COMP, about, waits=waits),)
        stream = chain
        open_ends: list[int] = []
        for _, operator in sorted(iteration.operators.items()):
            reads, stream = self._reads(operator.reads, stream)
            chain = self._transfers(operator.before, chain)
            begun = chain
            for event in operator.computes:
                args = event["args"]
                about = {"is_cpu_op": 0, "num_ops": args["flops"], "tensor_size": args["bytes"]}
                chain = (self._add(event, NodeKind.COMP, about, needs=(*begun, *reads)),)
            open_ends += [self._add(each, NodeKind.MEM_STORE, _memory(each), waits=begun) for each in operator.writes]
            chain = self._transfers(operator.after, chain)
        self._tails[iteration.engine] = tuple(dict.fromkeys((*chain, *stream, *open_ends)))

    def _reads(self, events: Sequence[Event], stream: tuple[int, ...]) -> tuple[list[int], tuple[int, ...]]:
        """Tiles one after the other; what is read together starts together."""
        found: list[int] = []
        before, start = stream, None
        tile: list[int] = []
        for event in sorted(events, key=lambda each: float(each["ts"])):
            if event["ts"] != start:
                before, tile, start = tuple(tile) or before, [], event["ts"]
            tile.append(self._add(event, NodeKind.MEM_LOAD, _memory(event), waits=before))
            found.append(tile[-1])
        return found, tuple(tile) or stream

    def _transfers(self, events: Sequence[Event], chain: tuple[int, ...]) -> tuple[int, ...]:
        found: list[int] = []
        for event in events:
            found += (
                self._collective(event, chain) if event["args"]["kind"] in COLLECTIVES else self._moves(event, chain)
            )
        return tuple(found) or chain

    def _collective(self, event: Event, chain: tuple[int, ...]) -> list[int]:
        args = event["args"]
        element = words.DTYPE_BYTES[args["dtype"]]
        ranks = args["Process Group Ranks"]
        group = self._groups.setdefault(ranks, str(len(self._groups) + 1))
        about = {
            "is_cpu_op": 0, "comm_type": COLLECTIVES[args["kind"]].value,
            "comm_size": args["In msg nelems"] * element, "pg_name": group,
        }  # fmt: skip
        return [self._add(event, NodeKind.COMM_COLL, about, needs=chain)]

    def _moves(self, event: Event, chain: tuple[int, ...]) -> list[int]:
        """A node for each die that something is sent to or comes from."""
        args = event["args"]
        found = []
        for kind, way in ((NodeKind.COMM_SEND, "to"), (NodeKind.COMM_RECV, "from")):
            for peer, amount in args.get(way, {}).items():
                ends = (self._rank, int(peer)) if way == "to" else (int(peer), self._rank)
                about = {
                    "is_cpu_op": 0, "comm_size": amount, "comm_src": ends[0], "comm_dst": ends[1],
                    "comm_tag": args["External id"],
                }  # fmt: skip
                found.append(self._add(event, kind, about, needs=chain))
        return found

    def _add(
        self,
        event: Event,
        kind: NodeKind,
        about: Mapping[str, int | str],
        waits: Sequence[int] = (),
        needs: Sequence[int] = (),
    ) -> int:
        start, length = nanoseconds(event["ts"] / 1e6), nanoseconds(event["dur"] / 1e6)
        attributes = {"iteration": event["args"].get("iteration", 0), **about, "duration_ns": length}
        identity = len(self._nodes) + 1
        name = str(event["args"].get("operator", event["name"])) if kind != NodeKind.COMP else str(event["name"])
        name = f"{name} ({event['name']})" if kind != NodeKind.COMP else name
        times = start // 1000, -(-length // 1000)
        self._nodes.append(Node(identity, name, kind, *times, tuple(waits), tuple(needs), attributes))
        return identity


def _memory(event: Event) -> dict[str, int | str]:
    return {"is_cpu_op": 0, "tensor_size": event["args"]["bytes"]}


def _number(step: Event) -> int:
    return int(str(step["name"]).removeprefix(words.SERVING_STEP))


def _iterations(events: Iterable[Event]) -> Iterator[_Iteration]:
    """The iterations of a rank in order of their starts."""
    found: dict[int, _Iteration] = {}
    for event in events:
        kind = event.get("cat")
        if kind == words.ANNOTATION:
            found.setdefault(_number(event), _Iteration(event))
        elif kind in (words.KERNEL, words.MEMCPY, names.WEIGHTS) and "position" in event["args"]:
            args = event["args"]
            operator = found[args["iteration"]].operators.setdefault(args["position"], _Operator())
            _list_of(operator, event).append(event)
    yield from found.values()


def _list_of(operator: _Operator, event: Event) -> list[Event]:
    args = event["args"]
    if event["cat"] == words.KERNEL:
        if "kind" not in args:
            return operator.computes
        return operator.after if args["kind"] in AFTER else operator.before
    return operator.writes if "write" in event["name"] else operator.reads
