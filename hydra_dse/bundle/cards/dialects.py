"""Cards as they are found: what is nested or spelled otherwise is moved to where the schema has it, with a note.

Seen in 191 cards: `Model-executor` below `workload` (16), parameter counts beside `model_arch` instead of in it (12),
`num_active_params` for `num_params_active`, one batch size for each of several runs (16).
"""

from __future__ import annotations

import copy
from dataclasses import dataclass

from hydra_dse.config.document import Document, KeyPath, Place
from hydra_dse.errors import Fault

EXECUTOR = "Model-executor"
ARCHITECTURE: KeyPath = ("workload", "model", "model_arch")
_COUNTS = ("num_params", "num_params_embedding", "num_params_active", "num_layers", "num_heads", "head_dim")


@dataclass(frozen=True)
class Move:
    """A value that stands at `source` and belongs at `target`."""

    source: KeyPath
    target: KeyPath
    message: str


def normalise(document: Document) -> tuple[Document, list[Fault]]:
    """The card with every known dialect resolved, and a fault for each; lines stay those of the file."""
    faults = []
    for move in _moves(document):
        faults.append(document.fault(move.source, move.message, at_key=True))
        document = _moved(document, move)
    return document, faults


def _moves(document: Document) -> list[Move]:
    moves = []
    below = ("workload", EXECUTOR)
    if isinstance(document.get(below), dict) and document.get((EXECUTOR,)) is None:
        moves.append(
            Move(below, (EXECUTOR,), f"wrong nesting: {EXECUTOR!r} belongs at the top level, not in 'workload'")
        )
    misspelt = f"misspelt: write {EXECUTOR!r}; the original tools read no other"
    for name in ("Model_executor", "model-executor", "model_executor"):
        if isinstance(document.get((name,)), dict) and document.get((EXECUTOR,)) is None:
            return [*moves, Move((name,), (EXECUTOR,), misspelt), *_counts(document)]
    return [*moves, *_counts(document)]


def _counts(document: Document) -> list[Move]:
    moves = []
    for name in _COUNTS:
        source = ("workload", "model", name)
        if document.get(source) is not None and document.get((*ARCHITECTURE, name)) is None:
            moves.append(Move(source, (*ARCHITECTURE, name), f"wrong nesting: {name!r} belongs in 'model_arch'"))
    old, new = (*ARCHITECTURE, "num_active_params"), (*ARCHITECTURE, "num_params_active")
    if document.get(old) is not None and document.get(new) is None:
        moves.append(Move(old, new, "the MFU formula reads 'num_params_active'; this key charges all experts"))
    return moves


def _moved(document: Document, move: Move) -> Document:
    data = copy.deepcopy(document.data)
    value = document.get(move.source)
    _take(data, move.source)
    if not _put(data, move.target, value):
        return document
    values, keys = (_shift(dict(marks), move) for marks in (document.values, document.keys))
    return Document(document.file, data, values, keys, document.overrides, document.folder, document.trusted)


def _take(data: dict[str, object], path: KeyPath) -> None:
    inner: object = data
    for part in path[:-1]:
        inner = inner[part] if isinstance(inner, dict) else None
    if isinstance(inner, dict):
        inner.pop(path[-1], None)


def _put(data: dict[str, object], path: KeyPath, value: object) -> bool:
    """Set a value, making mappings on the way; False where something else stands there."""
    inner = data
    for part in path[:-1]:
        step = inner.setdefault(str(part), {})
        if step is None:
            step = inner[str(part)] = {}
        if not isinstance(step, dict):
            return False
        inner = step
    inner[str(path[-1])] = value
    return True


def _shift(marks: dict[KeyPath, Place], move: Move) -> dict[KeyPath, Place]:
    size = len(move.source)
    moved = {(*move.target, *path[size:]): place for path, place in marks.items() if path[:size] == move.source}
    return {**marks, **moved}
