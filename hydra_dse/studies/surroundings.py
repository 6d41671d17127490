"""What a bug report needs: versions, machine, simulators, bundled data and what is wrong with them."""

from __future__ import annotations

import hashlib
import os
import platform
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, entry_points, requires, version
from pathlib import Path

import hydra_dse
from hydra_dse import extensions
from hydra_dse.config.finder import bundled, data_root
from hydra_dse.errors import InputError
from hydra_dse.extensions import SIMULATORS
from hydra_dse.studies.executor import available_cores
from hydra_dse.studies.provenance import git_id
from hydra_dse.studies.simulators import find_simulator

_DISTRIBUTION = "hydra-dse"
_NOT_INSTALLED = "not installed"
EXTENSIONS = ("hydra_dse.metrics", extensions.PLACEMENTS, extensions.OBJECTIVES, extensions.ARRIVALS)
_DATA = ("workloads", "search_spaces", "experiments")


@dataclass(frozen=True)
class Surroundings:
    """What the project runs on.

    Attributes:
        program: version, commit, interpreter, place of the code.
        machine: system, cores that this process may use, memory in GiB.
        packages: requirement → version, or `not installed`; extras carry their extra's name.
        simulators: name → object that answers to it.
        extensions: other parts that packages add, `group: name` → object.
        data: folder → number of files and a digest over names and contents.
        problems: one sentence for each thing that would make a command fail.
    """

    program: Mapping[str, str]
    machine: Mapping[str, str]
    packages: Mapping[str, str]
    simulators: Mapping[str, str]
    extensions: Mapping[str, str]
    data: Mapping[str, str]
    problems: tuple[str, ...]


def surroundings() -> Surroundings:
    """Look at the program, the machine and the data; takes well under a second."""
    packages = dict(_packages())
    return Surroundings(
        program={
            "hydra_dse": hydra_dse.__version__,
            "commit": git_id() or "none (installed package)",
            "python": f"{platform.python_version()} ({sys.executable})",
            "code": str(Path(hydra_dse.__file__).parent),
        },
        machine={"system": platform.platform(), "cores": str(available_cores()), "memory_gib": _memory()},
        packages=packages,
        simulators={
            point.name: point.value for point in sorted(entry_points(group=SIMULATORS), key=lambda one: one.name)
        },
        extensions={
            f"{group}: {point.name}": point.value
            for group in EXTENSIONS
            for point in sorted(entry_points(group=group), key=lambda one: one.name)
        },
        data=dict(_data()),
        problems=tuple(_problems(packages)),
    )


def _memory() -> str:
    try:
        total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError, AttributeError):
        return "unknown"
    return f"{total / 2**30:.1f}"


def _packages() -> Iterator[tuple[str, str]]:
    """Every requirement of the distribution with the version found; those of development are left out."""
    for requirement in requires(_DISTRIBUTION) or ():
        words, _, marker = requirement.partition(";")
        extra = marker.split("extra ==")[-1].strip(" '\"") if "extra ==" in marker else ""
        if extra in ("dev", "docs"):
            continue
        name = words.split("[")[0].rstrip(" ").split(">")[0].split("<")[0].split("=")[0].split("!")[0].strip()
        yield (f"{name} (extra {extra})" if extra else name), _version(name)


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return _NOT_INSTALLED


def _data() -> Iterator[tuple[str, str]]:
    root = data_root()
    library = Path(hydra_dse.__file__).parent / "library"
    for name, folder in [*((name, root / name) for name in _DATA), ("library", library)]:
        files = sorted(file for file in folder.rglob("*") if file.is_file() and "__pycache__" not in file.parts)
        digest = hashlib.sha256()
        for file in files:
            digest.update(f"{file.relative_to(folder).as_posix()}\0".encode())
            digest.update(hashlib.sha256(file.read_bytes()).digest())
        yield name, f"{len(files)} files, sha256 {digest.hexdigest()[:16]}"


def _problems(packages: Mapping[str, str]) -> Iterator[str]:
    for name, found in packages.items():
        if found == _NOT_INSTALLED and "(extra" not in name:
            yield f"the required package {name} is not installed"
    try:
        find_simulator()
    except InputError as error:
        yield str(error)
    if not bundled("experiments"):
        yield f"no experiments below {data_root()}: the bundled data is incomplete"
    for place in (Path.cwd(), Path(tempfile.gettempdir())):
        if not os.access(place, os.W_OK):
            yield f"{place} cannot be written to"
