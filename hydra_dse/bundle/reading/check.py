"""Whether the traces of a folder have what the tools need, rule by rule (`rules.RULES`), in one pass over each file.

Kept of a file are four numbers an event that lasts; the events themselves are not.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

from hydra_dse.bundle.reading.file_check import FileCheck, Group, Notes
from hydra_dse.bundle.reading.folder import TraceFolder, open_folder
from hydra_dse.bundle.reading.rules import RULES, Rule
from hydra_dse.errors import Fault

OK, FAULT, ABSENT, OTHER = "ok", "fault", "absent", "not applicable"
_RANKS = re.compile(r"\d{1,9}")


@dataclass(frozen=True)
class RuleResult:
    """How a folder does by one rule: `status` and the faults, of which `count` were found."""

    rule: Rule
    status: str
    count: int
    faults: tuple[Fault, ...]


@dataclass
class _Rank:
    """What one file says that other files are compared with."""

    number: int
    calls: dict[Group, list[tuple[str, object]]] = field(default_factory=dict)
    """By group of ranks: kind and `External id` of its collectives in the order of their start."""


def check_folder(path: str | Path) -> list[RuleResult]:
    """Hold a bundle's folder against every rule.

    Raises:
        InputError: no such folder, nothing of a bundle in it, or a trace that is no JSON.
    """
    folder = open_folder(path)
    notes = Notes()
    _card(folder, notes)
    ranks, kernels = [], 0
    for file in folder.ranks:
        checker = FileCheck(file, notes)
        checker.read()
        kernels += checker.kernels
        ranks.append(_Rank(int(_RANKS.findall(file.name)[0]), checker.sequences()))
    if folder.ranks:
        if not kernels:
            notes.add("cat", "no rank has an event of category 'kernel'", str(folder.path))
        _match(folder, ranks, notes)
    return [_result(rule, folder, notes) for rule in RULES]


def _result(rule: Rule, folder: TraceFolder, notes: Notes) -> RuleResult:
    count = notes.counts[rule.name]
    if rule.applies == "side":
        status = OK if folder.latencies_s() else ABSENT
    elif rule.applies != "json" or not folder.ranks:
        held = {"json": folder.ranks, "json_tpu": (), "nsys": folder.databases}[rule.applies]
        status = OK if held and not count else FAULT if count else OTHER
    else:
        status = FAULT if count else OK
    return RuleResult(rule, status, count, tuple(notes.faults.get(rule.name, ())))


def _card(folder: TraceFolder, notes: Notes) -> None:
    if folder.card is None:
        notes.add("card", folder.card_reason, str(folder.path))
        return
    expected = f"{folder.name}.yaml"
    if Path(folder.card.document.file).name != expected:
        notes.add("card", f"the card is not named like its folder: {expected}", folder.card.document.file)
    if folder.ranks and "json" not in folder.card.trace_kinds:
        notes.add("card", "the folder holds traces of kind 'json', which metric_source.traces does not name",
                  folder.card.document.file)  # fmt: skip


def _match(folder: TraceFolder, ranks: list[_Rank], notes: Notes) -> None:
    """Compare the collectives of each group on all its ranks that are in the folder."""
    for group in dict.fromkeys(group for rank in ranks for group in rank.calls):
        members = {int(text) for text in _RANKS.findall(group)} if "..." not in group else None
        there = [rank for rank in ranks if members is None or rank.number in members]
        for rank in ranks:
            if members is not None and rank.number not in members and group in rank.calls:
                notes.add("matched collectives", f"rank {rank.number} is not in the group {group}", str(folder.path))
        for left, right in pairwise(there):
            for rule, message in _differences(left.calls.get(group, []), right.calls.get(group, [])):
                place = f"ranks {left.number} and {right.number}, group {group}"
                notes.add(rule, f"{place}: {message}", str(folder.path))


def _differences(left: list[tuple[str, object]], right: list[tuple[str, object]]) -> Iterator[tuple[str, str]]:
    if len(left) != len(right):
        yield "matched collectives", f"{len(left)} and {len(right)} collectives"
        return
    for index, ((kind, one), (other_kind, other)) in enumerate(zip(left, right, strict=True)):
        if kind != other_kind:
            yield "matched collectives", f"collective {index} is {kind} on one and {other_kind} on the other"
            return
        if one != other:
            yield "External id", f"collective {index}: {one!r} and {other!r}"
            return
