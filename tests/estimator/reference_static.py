"""Static batches, one after the other: an engine independent of the estimator and of the simulators."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from tests.estimator.reference_engine import IterationTime


@dataclass
class StaticLog:
    """Dates by request (NaN where it was refused), batches and the end."""

    first_s: np.ndarray
    last_s: np.ndarray
    batches: int = 0
    refused: int = 0
    end_s: float = 0.0


@dataclass
class Door:
    """Lets requests in as time passes."""

    arrival: np.ndarray
    room: float
    come: int = 0
    refused: int = 0
    waiting: list[int] = field(default_factory=list)

    def until(self, now: float) -> None:
        while self.come < len(self.arrival) and self.arrival[self.come] <= now:
            if len(self.waiting) >= self.room:
                self.refused += 1
            else:
                self.waiting.append(self.come)
            self.come += 1


def static(
    arrival: np.ndarray,
    prompt: np.ndarray,
    output: np.ndarray,
    time: IterationTime,
    max_batch: int,
    budget: int,
    room: float = np.inf,
) -> StaticLog:
    """Serve all requests in closed batches."""
    count = len(arrival)
    log, door = StaticLog(np.full(count, np.nan), np.full(count, np.nan)), Door(arrival, room)
    now = 0.0
    while True:
        door.until(now)
        if not door.waiting:
            if door.come == count:
                break
            now = float(arrival[door.come])
            door.until(now)
        batch, door.waiting = door.waiting[:max_batch], door.waiting[max_batch:]
        log.batches += 1
        now = _prompts(batch, prompt, time, budget, now, log, door)
        now = _decode(batch, prompt, output, time, now, log, door)
    log.refused, log.end_s = door.refused, now
    return log


def _prompts(
    batch: list[int], prompt: np.ndarray, time: IterationTime, budget: int, now: float, log: StaticLog, door: Door
) -> float:
    at, done = 0, 0
    while at < len(batch):
        left, pairs, ending = budget, 0.0, []
        while left > 0 and at < len(batch):
            chunk = min(left, int(prompt[batch[at]]) - done)
            pairs += chunk * (done + chunk / 2)
            done += chunk
            left -= chunk
            if done == prompt[batch[at]]:
                ending.append(batch[at])
                at, done = at + 1, 0
        now += time(0, 0.0, budget - left, pairs)
        log.first_s[ending] = log.last_s[ending] = now
        door.until(now)
    return now


def _decode(
    batch: list[int],
    prompt: np.ndarray,
    output: np.ndarray,
    time: IterationTime,
    now: float,
    log: StaticLog,
    door: Door,
) -> float:
    active = sorted((i for i in batch if output[i] > 1), key=lambda i: output[i])
    context, step, ended = float(sum(prompt[i] for i in active)), 0, 0
    while ended < len(active):
        step += 1
        running = len(active) - ended
        now += time(running, context + running * step, 0, 0.0)
        door.until(now)
        while ended < len(active) and output[active[ended]] - 1 <= step:
            log.last_s[active[ended]] = now
            context -= float(prompt[active[ended]])
            ended += 1
    return now
