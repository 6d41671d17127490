"""The journal of finished cases."""

from __future__ import annotations

import math
from concurrent.futures import Executor, Future
from functools import partial

import pytest

from hydra_dse.errors import InputError
from hydra_dse.studies.cases import CaseJournal, case_key
from hydra_dse.studies.executor import InProcessExecutor
from hydra_dse.studies.journaled import records_of


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


class Beside(Executor):
    """Stands for processes: nothing runs before a result is asked."""

    def __init__(self) -> None:
        self.sent = 0

    def submit(self, fn, /, *args, **kwargs):
        self.sent += 1
        future = Future()
        future.result = lambda timeout=None: fn(*args, **kwargs)
        return future


def test_cases_of_this_process_are_kept_before_the_next_one_starts(tmp_path):
    journal = CaseJournal(tmp_path / "cases.jsonl")
    journal.add("b", {"value": 2})
    seen = []

    def made(key):
        seen.append((key, len(CaseJournal(tmp_path / "cases.jsonl"))))
        return {"value": {"a": 1, "c": 3}[key]}

    cases = [(key, partial(made, key)) for key in ("c", "b", "a", "c")]
    found = [record["value"] for record in records_of(cases, journal, InProcessExecutor())]
    assert found == [3, 2, 1, 3]
    assert seen == [("c", 1), ("a", 2)]


def test_cases_that_run_beside_are_all_sent_first_and_a_failure_keeps_those_before_it(tmp_path):
    journal, pool = CaseJournal(tmp_path / "cases.jsonl"), Beside()
    cases = [("a", partial(dict, value=1)), ("b", partial(int, "no number")), ("c", partial(dict, value=3))]
    records = records_of(cases, journal, pool)
    assert next(records) == {"value": 1}
    assert pool.sent == 3
    with pytest.raises(ValueError, match="no number"):
        next(records)
    assert [key in CaseJournal(tmp_path / "cases.jsonl") for key in "abc"] == [True, False, False]
