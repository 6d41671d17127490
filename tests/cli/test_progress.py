"""Progress: plain lines where there is no terminal, nothing when quiet, rates from this run's own work."""

from __future__ import annotations

import pytest

from hydra_dse.cli import progress
from hydra_dse.cli.progress import Bar, SweepBar, ValidationBar
from hydra_dse.studies import SweepState, ValidationState


@pytest.fixture
def clock(monkeypatch):
    """A clock that stands until it is set."""
    now = [100.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    return now


def lines(capsys) -> list[str]:
    text = capsys.readouterr().err
    assert "\x1b" not in text and "\r" not in text
    return text.splitlines()


def state(done: int, total: int = 1000) -> SweepState:
    return SweepState(done, total, 0, 1, done // 2, 7, {"ttft_mean_s": 0.25}, 1.5)


def test_lines_come_every_few_seconds_with_rate_and_time_left(clock, capsys):
    with SweepBar("sweep x", "designs", quiet=False) as bar:
        bar.update(state(0))
        clock[0] += 2
        bar.update(state(100))
        clock[0] += 8
        bar.update(state(500))
        clock[0] += 1
        bar.update(state(1000))
    told = lines(capsys)
    assert told == [
        "sweep x: 500/1000 designs  10 s left  50 designs/s  front 7  hypervolume 1.5  best ttft_mean_s 0.2500 s",
        "sweep x: 1000/1000 designs  91 designs/s  front 7  hypervolume 1.5  best ttft_mean_s 0.2500 s",
    ]


def test_what_an_earlier_run_did_counts_neither_for_rate_nor_for_time_left(clock, capsys):
    with SweepBar("sweep x", "designs", quiet=False) as bar:
        bar.update(state(900))
        clock[0] += 10
        bar.update(state(950))
    assert lines(capsys)[0].startswith("sweep x: 950/1000 designs  10 s left  5 designs/s")


def test_slow_work_has_a_time_left_without_a_rate(clock, capsys):
    with ValidationBar("validate x", "designs", quiet=False) as bar:
        bar.update(ValidationState(0, 20))
        clock[0] += 100
        bar.update(ValidationState(1, 20, "abc"))
    assert lines(capsys) == ["validate x: 1/20 designs  31 min 40 s left  abc"]


def test_a_space_with_fewer_points_than_trials_ends_with_a_line_of_its_own(clock, capsys):
    with SweepBar("sweep x", "designs", quiet=False) as bar:
        bar.update(state(0))
        bar.update(state(184))
    assert lines(capsys)[-1].startswith("sweep x: 184/1000 designs")


def test_an_interrupted_job_leaves_the_last_word_to_its_message(clock, capsys):
    with pytest.raises(KeyboardInterrupt), SweepBar("sweep x", "designs", quiet=False) as bar:
        bar.update(state(10))
        raise KeyboardInterrupt
    assert lines(capsys) == []


def test_quiet_is_quiet(clock, capsys):
    with Bar("sweep x", "designs", quiet=True) as bar:
        bar.show(0, 10, "")
        clock[0] += 60
        bar.show(10, 10, "")
    assert lines(capsys) == []


def test_a_terminal_gets_a_bar(monkeypatch, capsys):
    monkeypatch.setattr(progress.sys.stderr, "isatty", lambda: True, raising=False)
    with ValidationBar("validate x", "designs", quiet=False) as bar:
        bar.update(ValidationState(1, 2, "abc"))
        bar.update(ValidationState(2, 2, "def"))
    assert "2/2" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.4, "0 s"), (59.4, "59 s"), (61, "1 min 1 s"), (3600, "1 h 0 min"), (18720, "5 h 12 min")]
)
def test_durations_have_two_units_at_most(seconds, text):
    assert progress._duration(seconds) == text
