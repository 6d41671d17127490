"""What lies in the folder of a bundle: card, traces, launch script and side files."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path

from hydra_dse.bundle.cards import CardFile, read_card
from hydra_dse.errors import Fault, InputError

_RANK = re.compile(r"(?:rank(\d+)_trace|kineto_trace_(\d+))\.json(?:\.gz)?")
_OWN = ("metrics.json", "provenance.json")
_LIMIT_BYTES = 64_000_000


@dataclass(frozen=True)
class TraceFolder:
    """A bundle's folder.

    Attributes:
        path: the folder.
        card: the card as read, None where there is none or it cannot be read.
        card_reason: why there is none.
        ranks: Chrome traces of ranks by number: `rank<N>_trace.json` or `kineto_trace_<N>.json`, plain before gzipped.
        others: other JSON files, by name (TPU traces).
        databases: Nsight Systems exports.
        scripts: launch scripts.
    """

    path: Path
    card: CardFile | None
    card_reason: str
    ranks: tuple[Path, ...]
    others: tuple[Path, ...]
    databases: tuple[Path, ...]
    scripts: tuple[Path, ...]

    @property
    def name(self) -> str:
        """Name of the folder."""
        return self.path.resolve().name

    def side_file(self, name: str) -> Path | None:
        """A file of this name in the folder, None where there is none."""
        file = self.path / name
        return file if file.is_file() else None

    def latencies_s(self) -> list[float]:
        """`avg_latency` of the files `*.latency.json` anywhere below, in order of their paths."""
        found = []
        for file in sorted(self.path.rglob("*.latency.json")):
            data = read_json(file)
            value = data.get("avg_latency") if isinstance(data, dict) else None
            if isinstance(value, (int, float)) and not isinstance(value, bool) and 0 < value < 1e12:
                found.append(float(value))
        return found


def read_json(file: Path) -> object:
    """A small JSON file, None where it cannot be read."""
    try:
        if file.stat().st_size > _LIMIT_BYTES:
            return None
        data: object = json.loads(file.read_text(encoding="utf-8", errors="replace"))
    except (OSError, ValueError, RecursionError):
        return None
    return data


def open_folder(path: str | Path) -> TraceFolder:
    """Look into a bundle's folder.

    Raises:
        InputError: no such folder, or nothing in it that belongs to a bundle.
    """
    folder = Path(path)
    if not folder.is_dir():
        missing = "no such folder" if not folder.exists() else "is not a folder; expected the folder of a bundle"
        raise InputError(Fault(missing, str(path)))
    try:
        files = sorted(entry for entry in folder.iterdir() if entry.is_file())
    except OSError as error:
        raise InputError(Fault(f"cannot be read: {error.strerror or error}", str(path))) from None
    card, reason = _card(folder)
    ranks = _ranks(files)
    traces = [file for file in files if file.name.endswith((".json", ".json.gz")) and not _RANK.fullmatch(file.name)]
    others = tuple(file for file in traces if file.name not in _OWN and not file.name.endswith(".latency.json"))
    databases = tuple(file for file in files if file.suffix == ".sqlite")
    if card is None and not (ranks or others or databases):
        raise InputError(Fault(f"holds neither a card nor a trace ({reason})", str(path)))
    scripts = tuple(file for file in files if file.suffix == ".sh")
    return TraceFolder(folder, card, reason, ranks, others, databases, scripts)


def card_of(path: str | Path) -> Path:
    """The card that a path means: the file itself, or the card in a bundle's folder.

    In a folder that is `<folder>.yaml`, else `workload-card.yaml`, else the only YAML file.

    Raises:
        InputError: a folder without a card, or with several files that may be it.
    """
    place = Path(path)
    if not place.is_dir():
        return place
    for name in (f"{place.resolve().name}.yaml", "workload-card.yaml", "workload_card.yaml"):
        if (place / name).is_file():
            return place / name
    files = sorted((*place.glob("*.yaml"), *place.glob("*.yml")))
    files = [file for file in files if file.name != "gpu_step_score_config.yaml"]
    if len(files) == 1:
        return files[0]
    message = f"holds {len(files)} YAML files" if files else "holds no card"
    raise InputError(Fault(f"{message}; expected {place.resolve().name}.yaml", str(path)))


def _card(folder: Path) -> tuple[CardFile | None, str]:
    try:
        return read_card(card_of(folder)), ""
    except InputError as error:
        return None, str(error.faults[0])


def _ranks(files: list[Path]) -> tuple[Path, ...]:
    found: dict[tuple[str, int], Path] = {}
    for file in files:
        match = _RANK.fullmatch(file.name)
        if match:
            key = ("rank" if match.group(1) else "kineto", int((match.group(1) or match.group(2))[:9]))
            if key not in found or file.suffix == ".json":
                found[key] = file
    kind = "rank" if any(kind == "rank" for kind, _ in found) else "kineto"
    return tuple(found[key] for key in sorted(found) if key[0] == kind)
