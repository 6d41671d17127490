"""The hardware library that ships inside the package: one YAML file a kind."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from hydra_dse.config.loader import Document, load_yaml

LIBRARY = Path(__file__).resolve().parents[1] / "library"
KINDS = ("chiplets", "memories", "links", "calibrations", "technologies")


@cache
def library(kind: str) -> Document:
    """Return the library file of a kind (`KINDS`)."""
    return load_yaml(LIBRARY / f"{kind}.yaml")


def library_names(kind: str) -> tuple[str, ...]:
    """Names in the library of a kind, in file order."""
    entries = library(kind).data[kind]
    return tuple(entries) if isinstance(entries, dict) else ()
