"""Many bundles in one table: rows of equal work stand together, and what does not fit a card is said.

Points are comparable where model, phase, precision, batch and lengths are equal, and for our bundles the requests too
(`x_chiplet.unit_of_work`).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from hydra_dse.bundle.conventions import BLOCK
from hydra_dse.bundle.metrics.evaluate import Measurement, evaluate
from hydra_dse.bundle.metrics.measured import Measured
from hydra_dse.bundle.reading import TraceFolder, open_folder
from hydra_dse.errors import Fault, InputError

_WORK: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("model", ("workload", "model", "model_family")),
    ("phase", ("workload", "model", "phase")),
    ("precision", ("workload", "model", "precision")),
    ("batch", ("workload", "data", "batch_size")),
    ("seq_len", ("workload", "data", "seq_len")),
    ("input", ("workload", "data", "input_len")),
    ("output", ("workload", "data", "output_len")),
    *((key, (BLOCK, "unit_of_work", key)) for key in ("requests", "prompt_tokens", "output_tokens", "workload_sha256")),
)
UNKNOWN_WORK = "work not known: no readable card"
_OPTIONS = {
    "tp": re.compile(r"--(?:tensor-parallel-size|tp-size|tensor-model-parallel-size|tp)[= ]+(\d{1,6})\b"),
    "pp": re.compile(r"--(?:pipeline-parallel-size|pp-size|pipeline-model-parallel-size|pp)[= ]+(\d{1,6})\b"),
    "batch_size": re.compile(r"--(?:batch-size|global-batch-size)[= ]+(\d{1,9})\b"),
}
_EXPERTS = re.compile(r"--enable-expert-parallel\b")
_SCRIPT_BYTES = 1_000_000


@dataclass(frozen=True)
class Row:
    """One bundle.

    Attributes:
        name: of its folder.
        work: what it did, as text that equal work shares.
        flags: what does not fit: card, digests, launch script, traces that cannot be read.
        measurement: its metrics.
    """

    name: str
    path: str
    work: str
    flags: tuple[str, ...]
    measurement: Measurement = field(default_factory=Measurement)


def table(paths: Sequence[str | Path], only: tuple[str, ...] = ()) -> list[Row]:
    """A row for each bundle, those of equal work together, in the order in which they are given.

    A folder that is no bundle stands for the bundles in it.

    Raises:
        InputError: a path that is no folder, or has no bundle in it; an unknown metric.
    """
    rows = [row_of(folder, only) for path in paths for folder in bundles_in(path)]
    works = list(dict.fromkeys(row.work for row in rows))
    return sorted(rows, key=lambda row: works.index(row.work))


def bundles_in(path: str | Path) -> list[TraceFolder]:
    """The bundle in a folder, or the bundles of the folders in it.

    Raises:
        InputError: there is none.
    """
    folder = Path(path)
    own = _bundle(folder)
    if own is not None and (own.card is not None or own.ranks or own.databases):
        return [own]
    if not folder.is_dir():
        return [open_folder(folder)]  # says what is wrong
    inner = [_bundle(entry) for entry in sorted(folder.iterdir()) if entry.is_dir()]
    found = [each for each in inner if each is not None] or ([own] if own is not None else [])
    if not found:
        raise InputError(Fault("is no bundle and holds none: expected a card <folder>.yaml or traces", str(path)))
    return found


def _bundle(folder: Path) -> TraceFolder | None:
    try:
        return open_folder(folder)
    except InputError:
        return None


def row_of(folder: TraceFolder, only: tuple[str, ...] = ()) -> Row:
    """The row of a bundle; a trace that cannot be read is a flag."""
    flags = list(_flags(folder))
    try:
        measurement = evaluate(Measured(folder), only)
    except InputError as error:
        if any(fault.file is None for fault in error.faults):
            raise  # an unknown metric is the caller's mistake
        flags.append(f"cannot be read: {error.faults[0]}")
        measurement = Measurement()
    return Row(folder.name, str(folder.path), work_of(folder), (*flags, *measurement.warnings), measurement)


def work_of(folder: TraceFolder) -> str:
    """What a bundle did, by its card; text is compared without case and punctuation."""
    if folder.card is None:
        return UNKNOWN_WORK
    parts = []
    for name, path in _WORK:
        value = folder.card.get(*path)
        if value is not None and value != "":
            text = re.sub(r"[^a-z0-9.]+", "-", str(value).lower()).strip("-")
            parts.append(f"{name} {text[:16] if name == 'workload_sha256' else text}")
    return ", ".join(parts) or UNKNOWN_WORK


def _flags(folder: TraceFolder) -> Iterable[str]:
    card = folder.card
    if card is None:
        yield f"card: {folder.card_reason}"
        return
    faults = card.faults()
    if faults:
        more = f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""
        yield f"card: line {faults[0].line}: {faults[0].message}{more}"
    traces = card.get(BLOCK, "traces")
    for entry in traces if isinstance(traces, list) else ():
        yield from _digest_flags(folder, entry, "trace")
    script = card.get(BLOCK, "run_script")
    if script is not None:
        yield from _digest_flags(folder, script, "launch script")
    elif isinstance(card.get(BLOCK), dict):
        yield "the card records no launch script (x_chiplet.run_script)"
    if not folder.scripts and script is None:
        yield "no launch script in the folder"
    if script is None:
        yield from _script_flags(folder)


def _digest_flags(folder: TraceFolder, entry: object, what: str) -> Iterable[str]:
    """Whether a recorded file is there and is the one recorded."""
    name, digest = (entry.get("file"), entry.get("sha256")) if isinstance(entry, dict) else (None, None)
    if not isinstance(name, str) or not isinstance(digest, str) or Path(name).is_absolute() or ".." in Path(name).parts:
        yield f"{what}: the card's entry {str(entry)[:60]} names no file of the folder with its sha256"
        return
    file = folder.path / name
    if not file.is_file():
        yield f"{what} {name} is recorded but not in the folder"
        return
    with file.open("rb") as stream:
        found = hashlib.file_digest(stream, "sha256").hexdigest()
    if found != digest:
        yield f"{what} {name} is not the one recorded: sha256 {found[:12]}…, the card says {digest[:12]}…"


def _script_flags(folder: TraceFolder) -> Iterable[str]:
    """Options of a launch script that contradict the card."""
    card = folder.card
    for script in folder.scripts if card is not None else ():
        with script.open("rb") as stream:
            text = stream.read(_SCRIPT_BYTES).decode("utf-8", "replace")
        for name, pattern in _OPTIONS.items():
            plan = ("Model-executor", "model_plan_parallelization") if name != "batch_size" else ("workload", "data")
            said = card.number(*plan, name) if card is not None else None
            given = {int(number) for number in pattern.findall(text)}
            if said is not None and given and int(said) not in given:
                yield f"{script.name} runs with {name} {', '.join(map(str, sorted(given)))}, the card says {said:g}"
        if _EXPERTS.search(text) and card is not None and card.get("workload", "model", "moe") is False:
            yield f"{script.name} passes --enable-expert-parallel, the card's model is dense"


def columns(rows: Sequence[Row]) -> list[str]:
    """Metrics that any row has, in the order of the catalogue."""
    from hydra_dse.bundle.metrics.registry import metrics

    order = {name: index for index, name in enumerate(metrics())}
    found = dict.fromkeys(name for row in rows for name in row.measurement.values)
    return sorted(found, key=lambda name: (order.get(name.partition("@")[0], len(order)), name))


def reason(row: Row, name: str) -> str:
    """Why a row has no value of a metric, "" where it has one."""
    if name in row.measurement.values:
        return ""
    base = name.partition("@")[0]
    found = row.measurement.unavailable.get(name) or row.measurement.unavailable.get(base)
    return found or ("the trace cannot be read" if not row.measurement.values else "the bundle has no such part")


def sort(rows: Sequence[Row], name: str, descending: bool = False) -> list[Row]:
    """Rows by a metric within their groups, those without it last.

    Raises:
        InputError: no row has the metric.
    """
    if not any(name in row.measurement.values for row in rows):
        raise InputError(f"no bundle has a value of {name!r}: {reason(rows[0], name)}")
    works = list(dict.fromkeys(row.work for row in rows))

    def key(row: Row) -> tuple[int, bool, float]:
        value = row.measurement.values.get(name)
        return works.index(row.work), value is None, (-value if descending else value) if value is not None else 0.0

    return sorted(rows, key=key)
