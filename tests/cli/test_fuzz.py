"""Shipped files with a few bytes or lines changed: checking them gives faults, never an exception, and is quick."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from cli.pieces import ROOT
from hydra_dse.config import check_file
from hydra_dse.errors import Fault
from hydra_dse.rng import derive

FILES = [
    *sorted((ROOT / "experiments").glob("*.yaml")),
    *sorted((ROOT / "workloads").glob("**/*.yaml")),
    *sorted((ROOT / "workloads" / "models").glob("*.json")),
    *sorted((ROOT / "search_spaces").glob("**/*.yaml")),
]
MUTANTS = 100
CHARACTERS = "\t\n :,-[]{}#&*!|>'\"%@`$?0123456789.eE+aznM~\x00\u00e9\u2028"


def mutate_bytes(data: bytes, rng: np.random.Generator) -> bytes:
    """Change, drop or add a few characters."""
    changed = bytearray(data)
    for _ in range(int(rng.integers(1, 4))):
        at = int(rng.integers(len(changed)))
        new = CHARACTERS[int(rng.integers(len(CHARACTERS)))].encode()
        kind = int(rng.integers(3))
        changed[at : at + (kind != 2)] = b"" if kind == 1 else new
    return bytes(changed)


def mutate_lines(data: bytes, rng: np.random.Generator) -> bytes:
    """Drop, repeat, swap or cut lines."""
    lines = data.splitlines(keepends=True)
    at, other = (int(index) for index in rng.integers(len(lines), size=2))
    kind = int(rng.integers(5))
    if kind == 0:
        del lines[at]
    elif kind == 1:
        lines.insert(other, lines[at])
    elif kind == 2:
        lines[at], lines[other] = lines[other], lines[at]
    elif kind == 3:
        lines = lines[:at]
    else:
        lines[at] = b"  " + lines[at]
    return b"".join(lines)


def mutate_scalar(data: bytes, rng: np.random.Generator) -> bytes:
    """Put an awkward value in the place of one word."""
    awkward = (
        "-1",
        "0",
        "1e400",
        ".nan",
        "null",
        "[]",
        "{}",
        "true",
        "1 GB",
        "99999999999999999999",
        "''",
        "*a",
        "x" * 300,
    )
    words = data.split(b" ")
    at = int(rng.integers(len(words)))
    words[at] = awkward[int(rng.integers(len(awkward)))].encode()
    return b" ".join(words)


@pytest.mark.slow
@pytest.mark.parametrize("file", FILES, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_a_damaged_file_has_faults_and_never_raises(file: Path, tmp_path: Path):
    whole = file.read_bytes()
    target = tmp_path / file.name
    seen = set()
    for number in range(MUTANTS):
        rng = derive(5, "fuzz", file.name, number)
        mutated = (mutate_bytes, mutate_lines, mutate_scalar)[number % 3](whole, rng)
        target.write_bytes(mutated)
        faults = check_file(target)
        assert all(isinstance(fault, Fault) and fault.message for fault in faults)
        seen.add(bool(faults))
    assert True in seen
