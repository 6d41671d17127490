"""Iterations at the level of operators for the request level: executed each in events, or through a memo.

`OperatorCost` describes iterations as the closed form does, and hands their program to the processor that executes it
among all others.  `MemoCost` multiplies the closed form by the ratio of the two levels, found once per composition
rounded to two significant bits, of an iteration alone.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import simpy

from hydra_dse.errors import InvariantBroken
from simulators.clock import at
from simulators.iteration import Attended, Composition, Race, Rival, Stretch, Work
from simulators.noi.flows import FlowNetwork
from simulators.package.coefficients import PlacedHardware
from simulators.package.cost import PackageCost
from simulators.package.events import PackageExecution
from simulators.package.execution import Iteration, run_alone
from simulators.package.program import PoolProgram, Program
from simulators.package.reuse import BlockReuse


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
        Iteration(self.package, program, lambda: self._ended(done))
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

    def __init__(self, hardware: PlacedHardware, pool: str, blocks: Sequence[Sequence[str]]) -> None:
        super().__init__(hardware, pool)
        self._programs = PoolProgram(hardware, pool, blocks, FlowNetwork())
        self._ratios: dict[tuple[int, ...], float] = {}

    @property
    def known(self) -> int:
        """Compositions executed so far."""
        return len(self._ratios)

    def work(self, batch: Composition) -> Work:
        """Return the iteration with this composition."""
        work = super().work(batch)
        return work._replace(duration_s=work.duration_s * self._ratio(batch))

    def stretch(self, first: Composition, steps: int) -> Stretch:
        """Return consecutive decode steps."""
        alone = super().stretch(first, steps)
        ratios = [self._ratio(first.later(step)) for step in range(steps)]
        return alone._replace(duration_s=alone.duration_s * np.array(ratios))

    def beside(self, race: Race) -> Stretch | None:
        """Leave it to single steps."""
        return None

    def _ratio(self, batch: Composition) -> float:
        tokens, prompts, decoders = batch.prefill_tokens, batch.prefill_sequences, batch.decode_sequences
        key = (
            rounded(tokens),
            rounded(prompts),
            rounded(decoders),
            rounded(batch.attended.prefill_tokens // prompts) if prompts else 0,
            rounded(batch.attended.decode_tokens // decoders) if decoders else 0,
            int(batch.emitted_tokens > decoders),
        )
        found = self._ratios.get(key)
        if found is None:
            typical = self._typical(*key)
            alone = run_alone(self._programs.network, self._programs.program(typical), BlockReuse())
            found = self._ratios[key] = alone.now_s / super().work(typical).duration_s
        return found

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
            decoders + ends * prompts,
            inside(None),
            tuple(inside(window) for window in self.windows),
        )


def rounded(number: int) -> int:
    """Round a count to two significant bits below the leading one: at most 12.5 % off, exact up to 8."""
    if number < 8:
        return number
    shift = number.bit_length() - 3
    return (number + (1 << shift >> 1)) >> shift << shift
