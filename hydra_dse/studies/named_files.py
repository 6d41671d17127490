"""Files that a command names: written so that they mean the same from any folder, and all that are read for them."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterable, Iterator
from pathlib import Path

YAML = (".yaml", ".yml")
KINDS = ("designs", "workloads", "models", "calibrations")
MODEL_CONFIG = "config.json"
"""What is read of the folder of a model."""


def anywhere(ref: str) -> str:
    """A reference that means the same from any folder: a path becomes absolute, a bundled name stays.

    A bundled name means what is bundled also where a folder has it; a file of that name goes first.
    """
    from hydra_dse.config.finder import bundled, looks_like_path

    path = Path(ref)
    run, colon, identity = ref.rpartition(":")
    if colon and run and not path.exists():
        return f"{Path(run).resolve()}:{identity}"
    if path.is_dir() and not looks_like_path(ref) and any(ref in bundled(kind) for kind in KINDS):
        return ref
    return str(path.resolve()) if path.exists() else ref


def override_anywhere(text: str) -> str:
    """An override (`a.b=value`) whose files are named from any folder; one without files stays as it is."""
    from hydra_dse.config.document import leaves
    from hydra_dse.config.overrides import parse_override
    from hydra_dse.config.plain import put

    override = parse_override(text)
    value = {"value": copy.deepcopy(override.value)}
    files = [(path, file) for path, leaf in leaves(value) if (file := _file(leaf, Path())) is not None]
    for path, file in files:
        put(value, path, str(file))
    return f"{override.name}={json.dumps(value['value'], ensure_ascii=False)}" if files else text


def files_read(refs: Iterable[str | None], overrides: Iterable[str]) -> list[Path]:
    """Every file behind references and overrides, those that a YAML file names included, in order of their names."""
    from hydra_dse.config.document import leaves
    from hydra_dse.config.overrides import parse_override

    found: dict[Path, None] = {}
    for ref in refs:
        for file in (Path(ref), Path(ref) / MODEL_CONFIG) if ref is not None else ():
            if file.is_file():
                _add(file.resolve(), found)
    for text in overrides:
        for _, leaf in leaves({"value": parse_override(text).value}):
            named = _file(leaf, Path())
            if named is not None:
                _add(named / MODEL_CONFIG if named.is_dir() else named, found)
    return sorted(found)


def _add(file: Path, found: dict[Path, None]) -> None:
    if file not in found and file.is_file():
        found[file] = None
        for inner in _named_in(file):
            _add(inner, found)


def _named_in(file: Path) -> Iterator[Path]:
    """Files that a YAML file names, relative to its folder."""
    from hydra_dse.config.document import leaves
    from hydra_dse.config.loader import load_yaml

    if file.suffix.lower() in YAML:
        for _, leaf in leaves(load_yaml(file).data):
            inner = _file(leaf, file.parent)
            if inner is not None:
                yield inner / MODEL_CONFIG if inner.is_dir() else inner


def _file(leaf: object, folder: Path) -> Path | None:
    """The file or folder that a value names, absolute; None where it names none."""
    from hydra_dse.config.finder import looks_like_path

    if not isinstance(leaf, str) or not looks_like_path(leaf):
        return None
    try:
        file = folder / leaf
        return file.resolve() if file.is_file() or file.is_dir() else None
    except (OSError, ValueError):
        return None
