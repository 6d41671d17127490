"""Damaged files through the command line: faults, never an exception, quickly and in bounded memory.

`make bench-long` does the same ten thousand times, with profiles, the library and finished runs as well.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from benchmarks import fuzz

GROUPS: dict[str, tuple[Callable[[Path], Sequence[fuzz.Target]], int]] = {
    "shipped": (lambda folder: fuzz.shipped(), 5),
    "library": (fuzz.library, 5),
    "traces": (fuzz.traces, 10),
    "bundle": (fuzz.bundle, 8),
    "profiles": (lambda folder: fuzz.profiles()[:1], 5),
}


@pytest.mark.slow
@pytest.mark.parametrize("group", GROUPS)
def test_a_damaged_file_has_faults_and_never_raises(group: str, tmp_path: Path):
    targets_of, mutants = GROUPS[group]
    (tmp_path / "whole").mkdir()
    targets, before = targets_of(tmp_path / "whole"), fuzz.peak_memory()
    refused = 0
    for target in targets:
        for number in range(mutants):
            code, said, damaged = fuzz.attempt(target, number, tmp_path)
            assert code in (0, 2), (target.name, number, damaged[:400])
            assert "Traceback" not in said
            assert code == 0 or said.strip(), (target.name, number)
            refused += code == 2
    assert refused > len(targets) // 2
    assert fuzz.peak_memory() - before < fuzz.MOST_MEMORY


def test_five_hundred_files_are_damaged(tmp_path: Path):
    assert sum(len(targets_of(tmp_path)) * mutants for targets_of, mutants in GROUPS.values()) >= 500


def test_a_command_that_hangs_is_noticed():
    with pytest.raises(TimeoutError), fuzz.limited(0.05):
        while True:
            pass
