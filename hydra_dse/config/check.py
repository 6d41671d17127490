"""All faults of any input file: what it is is recognised from its keys or its first line."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from hydra_dse.config.document import Document
from hydra_dse.config.loader import load_yaml
from hydra_dse.errors import Fault, InputError

_TABLES = (".csv", ".jsonl", ".gz", ".tsv", ".txt")
_MODEL_KEYS = {"model_type", "architectures", "num_hidden_layers", "ssm_cfg", "preset", "d_model"}


@dataclass(frozen=True)
class Checked:
    """A file that was read.

    Attributes:
        faults: of the file and of the files it names.
        kind: what it describes, as in `kind_of`; `"unknown"` for a table or a folder, and where it has faults.
        found: what it describes, where it has no faults.
    """

    faults: tuple[Fault, ...] = ()
    kind: str = "unknown"
    found: object = None


def check_file(path: str | Path) -> list[Fault]:
    """Every fault of a file, those of the files it names included; empty where there is none."""
    return list(checked(path).faults)


def checked(path: str | Path) -> Checked:
    """Read a file, whatever it is."""
    file = Path(path)
    try:
        if file.suffix in _TABLES or file.is_dir():
            _check_table(file)
            return Checked()
        return _check_document(file)
    except InputError as error:
        return Checked(tuple(error.faults))


def kind_of(document: Document) -> str:
    """What a document describes, from `"comparison"` to `"chiplet"`; `"unknown"` where its keys tell nothing."""
    keys = set(document.data)
    signs = {
        "comparison": "compare" in keys,
        "decomposition": "variance" in keys,
        "experiment": bool({"objectives"} & keys) or {"workload", "space"} <= keys,
        "workload": "arrivals" in keys or {"classes", "shifts"} & keys,
        "space": "parameters" in keys and bool({"package", "dies", "counts"} & keys),
        "design": {"dies", "memories"} <= keys or {"package", "policy"} <= keys,
        "lengths": {"prompt", "output"} <= keys,
        "model": bool(_MODEL_KEYS & keys),
        "calibration": {"compute", "memory"} <= keys or "operator_overhead" in keys,
        "memory": "capacity" in keys,
        "link": bool({"reach", "density"} & keys),
        "chiplet": bool({"kind", "ports", "components", "matmul"} & keys),
    }
    return next((kind for kind, sign in signs.items() if sign), "unknown")


def _check_document(file: Path) -> Checked:
    if file.suffix == ".json":
        from hydra_dse.model import read_model

        try:
            document = load_yaml(file)
        except InputError:
            return Checked(kind="model", found=read_model(file))  # JSON that YAML does not read is at most a model's
    else:
        document = load_yaml(file)
    kind = kind_of(document)
    if kind == "unknown":
        known = "an experiment, workload, lengths, space, design, model config, die, memory, link or calibration"
        raise InputError(Fault(f"is not recognised; expected the keys of {known}", str(file), 1, 1))
    return Checked(kind=kind, found=_checker(kind)(file))


def _checker(kind: str) -> Callable[[Path], object]:
    from hydra_dse import config

    if kind == "lengths":
        return _load_lengths
    # Only the loader that is asked for: its schemas take a tenth of a second to build.
    name = {"decomposition": "load_variance"}.get(kind, f"load_{kind}")
    loader: Callable[[Path], object] = getattr(config, name)
    return loader


def _load_lengths(file: Path) -> object:
    from hydra_dse.config.lengths_schema import LengthsFile
    from hydra_dse.config.loader import validate

    return validate(load_yaml(file), LengthsFile)


def _check_table(file: Path) -> None:
    from hydra_dse.workload.traces.read import read_lengths, read_trace
    from hydra_dse.workload.traces.tables import has_arrivals

    if file.is_dir() or has_arrivals(file):
        read_trace(file)
    else:
        read_lengths(file)
