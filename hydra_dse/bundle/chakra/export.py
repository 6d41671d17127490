"""A bundle as Chakra files: `rank.<N>.et` of each rank, and the groups of its collectives."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from hydra_dse.bundle.chakra.graph import RankGraph
from hydra_dse.bundle.chakra.nodes import NodeKind, header
from hydra_dse.bundle.writing import events_of, rank_file
from hydra_dse.errors import Fault, InputError

GROUPS = "comm_groups.json"
"""Name of the group of a collective (`pg_name`) → its ranks."""


@dataclass(frozen=True)
class Exported:
    """What was written.

    Attributes:
        files: one a rank.
        counts: nodes by kind, of all ranks.
        edges: dependencies, of all ranks.
    """

    files: tuple[Path, ...]
    counts: dict[NodeKind, int]
    edges: int


def export(bundle: str | Path, out: str | Path) -> Exported:
    """Write the graph of every rank of a bundle of ours.

    Raises:
        InputError: no bundle of ours there, or the folder cannot be made.
    """
    traces = _traces(Path(bundle))
    folder = Path(out)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(Fault(f"cannot be made: {error.strerror or error}", file=str(out))) from None
    groups: dict[str, str] = {}
    counts: Counter[NodeKind] = Counter()
    files, edges = [], 0
    for rank, trace in enumerate(traces):
        nodes = RankGraph(rank, groups).nodes(events_of(trace))
        if rank == 0 and not any(node.kind != NodeKind.COMP for node in nodes):
            raise InputError(Fault("says no positions of operators: simulate the bundle again", file=str(trace)))
        file = folder / f"rank.{rank}.et"
        file.write_bytes(header() + b"".join(node.encoded() for node in nodes))
        counts.update(node.kind for node in nodes)
        edges += sum(len(node.waits) + len(node.needs) for node in nodes)
        files.append(file)
    text = json.dumps({name: json.loads(ranks) for ranks, name in groups.items()}, indent=2)
    (folder / GROUPS).write_text(text + "\n", encoding="utf-8", newline="\n")
    return Exported(tuple(files), {kind: counts[kind] for kind in NodeKind if counts[kind]}, edges)


def _traces(bundle: Path) -> list[Path]:
    """Traces of all ranks, the first at 0."""
    traces = [bundle / rank_file(rank) for rank in range(len(list(bundle.glob("rank*_trace.json"))))]
    if not traces or not all(trace.is_file() for trace in traces):
        raise InputError(Fault(f"has no {rank_file(0)}; give the folder of a bundle", file=str(bundle)))
    with traces[0].open(encoding="utf-8") as stream:
        if not stream.readline().endswith('"traceEvents": [\n'):
            message = "was not written by hydra-dse simulate; the converters of Chakra read it (chakra_trace_link)"
            raise InputError(Fault(message, file=str(traces[0])))
    return traces
