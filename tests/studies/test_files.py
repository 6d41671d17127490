from __future__ import annotations

import math

import pytest

from hydra_dse.errors import InputError
from hydra_dse.studies.files import csv_bytes, locked, write_atomically


def test_numbers_in_csv_read_back_to_the_same_bits():
    values = [0.1 + 0.2, 1e-300, 1 / 3, 12345678901234567.0]
    line = csv_bytes(["a"] * 4, [values]).decode().splitlines()[1]
    assert [float(cell) for cell in line.split(",")] == values


def test_csv_lines_end_with_a_line_feed_and_gaps_are_empty():
    assert csv_bytes(["a", "b", "c"], [[None, math.nan, 2]]) == b"a,b,c\n,,2\n"


def test_numpy_numbers_are_written_as_plain_ones():
    import numpy as np

    assert csv_bytes(["a"], [[np.float64(0.5)]]) == b"a\n0.5\n"


def test_a_write_that_fails_leaves_the_old_file_and_no_other(tmp_path, monkeypatch):
    file = tmp_path / "kept.csv"
    write_atomically(file, b"old")

    def full(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(InputError, match=r"kept.csv: cannot write: No space left on device"):
        write_atomically(file, b"new")
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("kept.csv", b"old")]


def test_a_run_directory_in_use_is_refused_and_free_again_afterwards(tmp_path):
    with locked(tmp_path), pytest.raises(InputError, match="another process is working"), locked(tmp_path):
        pass
    with locked(tmp_path):
        pass
