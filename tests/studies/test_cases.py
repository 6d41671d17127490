"""The journal of finished cases."""

from __future__ import annotations

import math

import pytest

from hydra_dse.errors import InputError
from hydra_dse.studies.cases import CaseJournal, case_key


def test_records_read_back_to_the_same_bits(tmp_path):
    record = {"values": [0.1 + 0.2, math.inf, 1e-300], "name": "µ"}
    CaseJournal(tmp_path / "cases.jsonl").add("a", record)
    again = CaseJournal(tmp_path / "cases.jsonl")
    assert again.get("a") == record
    assert again.get("b") is None
    assert again.resumed == 1


def test_half_a_line_after_a_kill_is_cut_off_and_the_case_done_again(tmp_path):
    file = tmp_path / "cases.jsonl"
    CaseJournal(file).add("a", {"value": 1})
    file.write_bytes(file.read_bytes() + b'{"case": "b", "rec')
    again = CaseJournal(file)
    assert "a" in again
    assert "b" not in again
    again.add("b", {"value": 2})
    assert CaseJournal(file).get("b") == {"value": 2}


def test_a_corrupt_line_is_refused_with_its_number(tmp_path):
    file = tmp_path / "cases.jsonl"
    CaseJournal(file).add("a", {"value": 1})
    file.write_bytes(file.read_bytes() + b"rubbish\n")
    with pytest.raises(InputError, match=r"cases.jsonl:2: .*corrupt"):
        CaseJournal(file)


def test_keys_tell_apart_what_their_parts_tell_apart():
    assert case_key("a", "bc") != case_key("ab", "c")
    assert case_key(1, 2.5) == case_key("1", "2.5")
