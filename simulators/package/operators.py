"""Iterations at the level of operators for the request level: executed each in events, or through a memo.

`OperatorCost` describes iterations as the closed form does, and hands their program to the processor that executes it
among all others.  `MemoCost` multiplies the closed form by the ratio of the two levels, found once per composition
rounded to two significant bits, of an iteration alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import simpy
from numpy.typing import NDArray

from hydra_dse.errors import InvariantBroken
from simulators.clock import at
from simulators.iteration import Attended, Composition, Race, Rival, Stretch, Work
from simulators.noi import FluidProcessor, Job
from simulators.noi.flows import FlowNetwork
from simulators.package.alone import run_alone
from simulators.package.coefficients import PlacedHardware
from simulators.package.cost import PackageCost
from simulators.package.events import Action, PackageExecution
from simulators.package.execution import Iteration
from simulators.package.program import PoolProgram, Program
from simulators.package.reuse import BlockReuse

FloatArray = NDArray[np.float64]
Key = tuple[int, ...]

TOGETHER = 6
"""Iterations of the shorter of a pair that its speeds are measured over."""


class Described(NamedTuple):
    """The program of an iteration, and a key of the pool and its composition to a power of two."""

    key: Key
    program: Callable[[], Program]


class OperatorCost(PackageCost):
    """The cost of a pool whose iterations are executed operator by operator by an `OperatorProcessor`.

    `Work.duration_s` stays that of the closed form; the processor decides when an iteration ends.
    """

    def __init__(
        self, hardware: PlacedHardware, pool: str, blocks: Sequence[Sequence[str]], network: FlowNetwork
    ) -> None:
        super().__init__(hardware, pool)
        self.programs = PoolProgram(hardware, pool, blocks, network)

    def work(self, batch: Composition) -> Work:
        """Return the iteration with this composition."""
        return super().work(batch)._replace(program_of=self._program)

    def _program(self, work: Work) -> Program:
        return self.programs.program(work.batch)


class OperatorProcessor:
    """Executes iterations operator by operator on one package (a processor of the request level)."""

    def __init__(self, env: simpy.Environment, network: FlowNetwork) -> None:
        self.env = env
        self.package = PackageExecution(network)
        self.make: Callable[[PackageExecution, Program, Action], Iteration] = Iteration
        self.jobs = 0
        self._timer = 0

    def only_job(self) -> Rival | None:
        """None: iterations go one by one."""
        return None

    def hold(self, until_s: float) -> simpy.Event:
        """Never asked for."""
        raise InvariantBroken("iterations that are executed by operators cannot be held")

    def run(self, job: Work) -> simpy.Event:
        """Start an iteration now (or a transfer that shares nothing); the event returned fires when it ends."""
        if job.program_of is None:
            return self.env.timeout(job.duration_s)
        done = self.env.event()
        if self.env.now > self.package.now_s:
            self.package.advance(self.env.now)
        self.jobs += 1
        program = job.program_of(job)
        if not isinstance(program, Program):
            raise InvariantBroken(f"an iteration has a {type(program).__name__} for a program")
        self.make(self.package, program, lambda: self._ended(done))
        self._plan()
        return done

    def _ended(self, done: simpy.Event) -> None:
        self.jobs -= 1
        done.succeed()

    def _plan(self) -> None:
        if self.package.idle:
            return
        self._timer += 1
        # An event that is due since a rounding error ago is due now.
        timer = at(self.env, max(self.package.next_s(), self.env.now), self._timer)
        timer.callbacks.append(self._due)

    def _due(self, timer: simpy.Event) -> None:
        if timer.value == self._timer:
            self.package.advance(self.env.now)
            self._plan()


class MemoCost(PackageCost):
    """The closed form times the ratio of the operator level to it, at the rounded composition."""

    def __init__(
        self, hardware: PlacedHardware, pool: str, blocks: Sequence[Sequence[str]], network: FlowNetwork
    ) -> None:
        super().__init__(hardware, pool)
        self._programs = PoolProgram(hardware, pool, blocks, network)
        self._number = network.number_pool()
        self._ratios: dict[Key, float] = {}

    @property
    def known(self) -> int:
        """Compositions executed so far."""
        return len(self._ratios)

    def work(self, batch: Composition) -> Work:
        """Return the iteration with this composition."""
        work = super().work(batch)
        return work._replace(duration_s=work.duration_s * self._ratio(batch), program_of=self._coarse_program)

    def stretch(self, first: Composition, steps: int) -> Stretch:
        """Return consecutive decode steps."""
        alone = super().stretch(first, steps)
        ratios = [self._ratio(first.later(step)) for step in range(steps)]
        return alone._replace(duration_s=alone.duration_s * np.array(ratios))

    def beside(self, race: Race) -> Stretch | None:
        """Leave it to single steps."""
        return None

    def _ratio(self, batch: Composition) -> float:
        key = _key(batch, rounded)
        found = self._ratios.get(key)
        if found is None:
            typical = self._typical(*key)
            alone = run_alone(self._programs.network, self._programs.program(typical), BlockReuse())
            found = self._ratios[key] = alone.now_s / super().work(typical).duration_s
        return found

    def _coarse_program(self, work: Work) -> Described:
        key = _key(work.batch, leading)
        return Described((self._number, *key), lambda: self._programs.program(self._typical(*key)))

    def _typical(self, tokens: int, prompts: int, decoders: int, read: int, context: int, ends: int) -> Composition:
        """An iteration of equal prompts and equal decoding sequences."""

        def inside(window: int | None) -> Attended:
            if not prompts:
                each = context if window is None else min(context, window)
                return Attended(decoders * each, 0.0, 0, decoders)
            chunk = max(1, tokens // prompts)
            prior = max(0, read - chunk)
            seen = prior if window is None else min(prior, window)
            far = max(prior + chunk / 2, 1.0)
            each = context if window is None else min(context, window)
            pairs = tokens * (far if window is None else min(far, float(window)))
            return Attended(decoders * each, pairs, prompts * (seen + chunk), decoders)

        return Composition(
            tokens,
            prompts,
            decoders,
            decoders * self.positions + ends * prompts,
            inside(None),
            tuple(inside(window) for window in self.windows),
            self.positions,
        )


class MemoProcessor(FluidProcessor):
    """Shares the package between whole iterations at speeds found by executing pairs of them operator by operator.

    Two iterations under way have the speeds of the pair of their compositions, each to a power of two; three and more
    share by mean busy shares.
    """

    def __init__(self, env: simpy.Environment, network: FlowNetwork) -> None:
        super().__init__(env)
        self._network = network

    def speeds(self, jobs: Sequence[Job], usages: list[FloatArray]) -> Sequence[float]:
        """Speeds of jobs with these usages."""
        works = [job for job in jobs if isinstance(job, Work) and job.program_of is not None]
        if len(jobs) != 2 or len(works) != 2:
            return super().speeds(jobs, usages)
        (one, first), (two, second) = (_keyed(work) for work in works)
        found = self._network.pairs.get((one, two))
        if found is None:
            found = self._network.pairs[one, two] = speeds_together(self._network, first(), second())
            self._network.pairs[two, one] = found[::-1]
        return found


def _keyed(work: Work) -> tuple[Key, Callable[[], Program]]:
    described = work.program_of(work) if work.program_of is not None else None
    if not isinstance(described, Described):
        raise InvariantBroken("an iteration without a program has no key")
    return described.key, described.program


def speeds_together(network: FlowNetwork, first: Program, second: Program) -> tuple[float, float]:
    """Execute two iterations side by side, each over and over, until one that is longer ends or six of the other have.

    Returns:
        The time each takes alone over the time it takes beside the other.
    """
    runners = [_Repeated(network, program) for program in (first, second)]
    package = PackageExecution(network)
    for runner in runners:
        runner.start(package)
    shorter = min(runners, key=lambda runner: runner.alone_s)
    longer = runners[1] if shorter is runners[0] else runners[0]
    while shorter.ended < TOGETHER and longer.ended < 1:
        package.advance(package.next_s())
    one, two = (min(1.0, runner.progress_s() / package.now_s) for runner in runners)
    return one, two


class _Repeated:
    """One iteration executed over and over."""

    def __init__(self, network: FlowNetwork, program: Program) -> None:
        self.program, self.ended = program, 0
        self._starts: list[tuple[int, float]] = [(0, 0.0)]
        alone = run_alone(network, program, lambda it: self._starts.append((it.at, it.package.now_s)))
        self.alone_s = alone.now_s
        self._starts.append((sum(len(block) for block in program.blocks), alone.now_s))

    def start(self, package: PackageExecution) -> None:
        """Start the next one."""
        self._package = package
        self._iteration = Iteration(package, self.program, self._end)

    def _end(self) -> None:
        self.ended += 1
        self.start(self._package)

    def progress_s(self) -> float:
        """Time that what is done would have taken alone; inside a block as its operators are numbered."""
        at, seconds = zip(*self._starts, strict=True)
        return self.ended * self.alone_s + float(np.interp(self._iteration.at, at, seconds))


def _key(batch: Composition, coarse: Callable[[int], int]) -> Key:
    tokens, prompts, decoders = batch.prefill_tokens, batch.prefill_sequences, batch.decode_sequences
    return (
        coarse(tokens),
        coarse(prompts),
        coarse(decoders),
        coarse(batch.attended.prefill_tokens // prompts) if prompts else 0,
        coarse(batch.attended.decode_tokens // decoders) if decoders else 0,
        int(batch.emitted_tokens > decoders * batch.positions),
    )


def leading(number: int) -> int:
    """Round a count to the nearest power of two (by its logarithm)."""
    return 1 << round(math.log2(number)) if number > 1 else number


def rounded(number: int) -> int:
    """Round a count to two significant bits below the leading one: at most 12.5 % off, exact up to 8."""
    if number < 8:
        return number
    shift = number.bit_length() - 3
    return (number + (1 << shift >> 1)) >> shift << shift
