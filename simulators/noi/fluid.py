"""Jobs on shared resources as fluids, in SimPy events.

A job asks for `duration_s` of work when alone.  Whenever a job starts or ends, the speeds of all running jobs follow
from `fair_speeds`; a job whose speed changes has its remaining work booked and its end moved.  A job whose speed
does not change keeps its planned end to the last bit.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import simpy
from numpy.typing import NDArray

from hydra_dse.errors import InvariantBroken
from simulators.clock import at
from simulators.iteration import Rival
from simulators.noi.sharing import fair_pair, fair_speeds

FloatArray = NDArray[np.float64]
FULL = 1e-9
"""What rounding may add to a full resource."""


class Job(Protocol):
    """Work that a `FluidProcessor` runs."""

    @property
    def duration_s(self) -> float:
        """Time it takes alone."""

    def usage(self) -> FloatArray | None:
        """Busy share of every shared resource while it runs alone; None if it shares nothing."""


class Processor(Protocol):
    """Runs the iterations of all engines of a package."""

    @property
    def jobs(self) -> int:
        """Number of jobs under way."""

    def run(self, job: Any) -> simpy.Event:
        """Start a job now; the event returned fires when it ends."""

    def only_job(self) -> Rival | None:
        """The job under way, if there is exactly one whose speed may be changed under `hold`."""

    def hold(self, until_s: float) -> simpy.Event:
        """Leave that job to the caller until an instant before its end; the event returned fires then."""


class _Running:
    """A job under way: what is left of it at `since_s`, its speed and the end that follows."""

    __slots__ = ("done", "end_s", "job", "left_s", "since_s", "speed", "usage")

    def __init__(self, done: simpy.Event, job: Job, now_s: float) -> None:
        self.done = done
        self.job = job
        self.left_s = left_s = job.duration_s
        self.usage = job.usage()
        self.since_s = now_s
        self.speed = 1.0
        self.end_s = now_s + left_s

    @property
    def state(self) -> tuple[float, float, float, float]:
        """What speeds and time change: (left_s, since_s, speed, end_s)."""
        return self.left_s, self.since_s, self.speed, self.end_s

    @state.setter
    def state(self, values: tuple[float, float, float, float]) -> None:
        self.left_s, self.since_s, self.speed, self.end_s = values

    def change_speed(self, speed: float, now_s: float) -> None:
        """Give the job another speed from now on; one that stays the same leaves its end as it is."""
        if speed == self.speed:
            return
        self.left_s = max(0.0, self.left_s - (now_s - self.since_s) * self.speed)
        self.since_s = now_s
        self.speed = speed
        self.end_s = now_s + self.left_s / speed


class FluidProcessor:
    """Runs jobs that share resources by bandwidth max-min."""

    def __init__(self, env: simpy.Environment) -> None:
        self.env = env
        self._running: list[_Running] = []
        self._rebalance_due = False
        self._timer = 0
        self._held = False
        self._ending = 0
        self.rebalances = 0

    @property
    def jobs(self) -> int:
        """Number of jobs under way."""
        return len(self._running)

    def run(self, job: Job) -> simpy.Event:
        """Start a job now; the event returned fires when it ends."""
        if not job.duration_s >= 0.0:
            raise InvariantBroken(f"a job of {job.duration_s} s cannot be run")
        done = self.env.event()
        self._running.append(_Running(done, job, self.env.now))
        self._touch()
        return done

    def only_job(self) -> Rival | None:
        """The job under way, if there is exactly one: its speed may be changed under `hold`."""
        return self._running[0] if len(self._running) == 1 else None

    def hold(self, until_s: float) -> simpy.Event:
        """Leave the job under way to the caller until an instant before its end; the event returned fires then."""
        self._held = True
        self._timer += 1
        done = at(self.env, until_s)
        done.callbacks.append(self._release)
        return done

    def _release(self, _: simpy.Event) -> None:
        self._held = False
        self._touch()

    def _touch(self) -> None:
        """Ask for one rebalancing, after the events that are already due at this instant."""
        if self._rebalance_due:
            return
        self._rebalance_due = True
        self.env.timeout(0.0).callbacks.append(self._rebalance)

    def _settle(self, _: simpy.Event) -> None:
        """Rebalance now where no other event is due at this instant, else after those."""
        if not self._rebalance_due and self.env.peek() > self.env.now:
            self._share()
        else:
            self._touch()

    def _rebalance(self, _: simpy.Event) -> None:
        self._rebalance_due = False
        self._share()

    def _share(self) -> None:
        """Give all jobs their fair speeds from now on, and plan the end of the first that ends."""
        if self._held:
            return
        self.rebalances += 1
        now = self.env.now
        sharing = [job for job in self._running if job.usage is not None]
        speeds = self._speeds(sharing)
        if len(sharing) > 1:
            _check(sharing, speeds)
        for job, speed in zip(sharing, speeds, strict=True):
            job.change_speed(speed, now)
        if self._running:
            self._timer += 1
            end = min(job.end_s for job in self._running)
            timer = at(self.env, end, self._timer)
            timer.callbacks.append(self._finish)

    def _speeds(self, sharing: list[_Running]) -> Sequence[float]:
        """Speeds of jobs that share resources, of all that are under way."""
        return self.speeds([job.job for job in sharing], [job.usage for job in sharing if job.usage is not None])

    def speeds(self, jobs: Sequence[Job], usages: list[FloatArray]) -> Sequence[float]:
        """Speeds of jobs with these usages; may be overridden."""
        return _speeds(usages)

    def _finish(self, timer: simpy.Event) -> None:
        if timer.value != self._timer:
            return
        now = self.env.now
        ended = [job for job in self._running if job.end_s <= now]
        self._running = [job for job in self._running if job.end_s > now]
        self._ending = len(ended)
        for job in ended:
            job.done.callbacks.append(self._ended)
            job.done.succeed()

    def _ended(self, done: simpy.Event) -> None:
        """After what the end of a job has set off: once all have ended that end at this instant, share anew."""
        self._ending -= 1
        if not self._ending:
            self._settle(done)


def _check(jobs: Sequence[_Running], speeds: Sequence[float]) -> None:
    """Check that no resource is given away more than once."""
    shares = [speed * job.usage for job, speed in zip(jobs, speeds, strict=True) if job.usage is not None]
    taken = shares[0]
    for share in shares[1:]:
        taken = taken + share
    if len(taken) and taken.max() > 1.0 + FULL:
        most = float(taken.max())
        raise InvariantBroken(
            f"resource {int(np.argmax(taken))} works at {most:.4f} times its capacity for {len(jobs)} jobs"
        )


def _speeds(usages: list[FloatArray]) -> Sequence[float]:
    if len(usages) < 2:
        return (1.0,) * len(usages)
    if len(usages) == 2:
        return fair_pair(*usages)
    speeds: list[float] = fair_speeds(np.stack(usages)).tolist()
    return speeds


class SoloProcessor:
    """Runs one job at a time, for systems in which nothing is ever shared: a plain timeout per job."""

    def __init__(self, env: simpy.Environment) -> None:
        self.env = env
        self.jobs = 0

    def only_job(self) -> Rival | None:
        """None: nothing is shared."""
        return None

    def hold(self, until_s: float) -> simpy.Event:
        """Never asked for: there is no job to hold."""
        raise InvariantBroken("a solo processor has no job to hold")

    def run(self, job: Job) -> simpy.Event:
        """Start a job now; the event returned fires when it ends."""
        if not job.duration_s >= 0.0:
            raise InvariantBroken(f"a job of {job.duration_s} s cannot be run")
        return self.env.timeout(job.duration_s)
