"""Reading, checking and writing workload cards.

What is read is kept whole: unknown keys and the order of keys survive, and a card that nothing changed is written with
the bytes it was read from.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from hydra_dse.bundle.cards import checks
from hydra_dse.bundle.cards.dialects import normalise
from hydra_dse.bundle.cards.schema import Card
from hydra_dse.bundle.conventions import BLOCK
from hydra_dse.config.document import Document, KeyPath
from hydra_dse.config.dump import to_yaml
from hydra_dse.config.faults import faults_of
from hydra_dse.config.loader import load_yaml, parse_yaml
from hydra_dse.errors import Fault, InputError


@dataclass(frozen=True)
class CardFile:
    """A card as it stands in a file.

    Attributes:
        document: the card with its dialects resolved, each key at its line.
        written: the data as the file has it.
        text: the file's text.
        dialects: a fault for each thing that stood elsewhere.
    """

    document: Document
    written: Mapping[str, object]
    text: str
    dialects: tuple[Fault, ...] = ()

    def get(self, *path: str | int) -> object:
        """The value at a key path of the resolved card, None where there is none."""
        return self.document.get(path)

    def number(self, *path: str) -> float | None:
        """A finite number at a key path, None for all else."""
        value = self.get(*path)
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not abs(value) < 1e300:
            return None
        return float(value)

    def text_at(self, *path: str) -> str | None:
        """Text at a key path, None for all else."""
        value = self.get(*path)
        return value if isinstance(value, str) else None

    @property
    def trace_kinds(self) -> tuple[str, ...]:
        """The kinds of traces that the card names."""
        kinds = self.get("metric_source", "traces")
        return tuple(str(kind) for kind in kinds) if isinstance(kinds, list) else ()

    def faults(self) -> list[Fault]:
        """Every fault of the card, in the order of the file."""
        found = [*self.dialects, *_of_types(self.document)]
        for check in checks.CHECKS:
            found.extend(check(self.document))
        return sorted(dict.fromkeys(found), key=lambda fault: (fault.line or 0, fault.column or 0, str(fault)))

    def with_block(self, block: Mapping[str, object]) -> CardFile:
        """The card with another block of ours; all else stays as it is, comments included where that can be."""
        data = copy.deepcopy(dict(self.written))
        fresh = BLOCK not in data
        data[BLOCK] = dict(block)
        gap = "" if self.text.endswith("\n") else "\n"
        text = f"{self.text}{gap}{to_yaml({BLOCK: dict(block)})}" if fresh else to_yaml(data)
        return parse_card(text, self.document.file)


def read_card(path: str | Path) -> CardFile:
    """Read a card of any dialect.

    Raises:
        InputError: missing, not UTF-8, not YAML, a key twice, or not a mapping; nothing else stops it.
    """
    document = load_yaml(path)
    return _card(document, Path(path).read_bytes().decode("utf-8-sig"))


def parse_card(text: str, file: str = "<card>") -> CardFile:
    """Like `read_card`, from text."""
    return _card(parse_yaml(text, file), text)


def _card(document: Document, text: str) -> CardFile:
    resolved, dialects = normalise(document)
    return CardFile(resolved, document.data, text, tuple(dialects))


def check_card(path: str | Path) -> list[Fault]:
    """Every fault of a card's file at its line; empty where there is none."""
    try:
        return read_card(path).faults()
    except InputError as error:
        return list(error.faults)


def new_card(data: Mapping[str, object], file: str = "<card>") -> CardFile:
    """A card from plain data.

    Raises:
        InputError: the data are not what the schema says; what merely makes a metric impossible is accepted.
    """
    card = parse_card(to_yaml(data), file)
    wrong = _of_types(card.document)
    if wrong or card.dialects:
        raise InputError([*card.dialects, *wrong])
    return card


def write_card(card: CardFile, path: str | Path) -> None:
    """Write a card: the bytes it was read from where nothing changed."""
    Path(path).write_bytes(card.text.encode())


def _of_types(document: Document) -> list[Fault]:
    try:
        Card.model_validate(document.data)
    except ValidationError as error:
        return [fault for fault in faults_of(error, document, Card) if not _said_elsewhere(document, fault)]
    return []


_BANDWIDTH: KeyPath = checks.BANDWIDTH


def _said_elsewhere(document: Document, fault: Fault) -> bool:
    """Whether a check of its own says it better: texts and lengths of bandwidths, several batch sizes."""
    path, values = fault.path or "", document.get(_BANDWIDTH)
    if path.startswith(".".join(map(str, _BANDWIDTH))) and isinstance(values, list):
        index = int(path.rsplit("[", 1)[1][:-1]) if path.endswith("]") else None
        entry = values[index] if index is not None and index < len(values) else None
        return isinstance(entry, str) if index is not None else len(values) == 1
    return path == "workload.data.batch_size" and isinstance(document.get((*checks.DATA, "batch_size")), list)
