"""Iterations that leave no spans while a trace window is open: what they drew and emitted is told all the same."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hydra_dse.records.spans import PassedSpan
from simulators.iteration import Work
from simulators.package.spans import SpanMaker

if TYPE_CHECKING:
    from simulators.serving.engine import Engine

SINGLE = 256
"""So many iterations of an engine are told one by one, those after them in runs of `RUN`."""
RUN = 64


@dataclass(eq=False)
class Passing:
    """Iterations of one engine, one right after the other.

    Attributes:
        batch, waiting, cache_share: at the first of them.
        works: of all of them; `ended_s`: of the last, None while it is under way.
    """

    model: str
    maker: SpanMaker
    start_s: float
    batch: int
    waiting: int
    cache_share: float
    works: list[Work] = field(default_factory=list)
    ended_s: float | None = None

    def span(self, engine: Engine, opened_s: float, now: float) -> PassedSpan:
        """What is told of them: from the opening of the window until they ended, or until now."""
        end_s = now if self.ended_s is None else self.ended_s
        start_s = max(self.start_s, opened_s)
        early = self.start_s < opened_s
        # What ran before the window opened is taken off; an iteration under way counts as far as it has come.
        whole_s = max(end_s - self.start_s, self.works[-1].duration_s if self.ended_s is None else 0.0)
        share = (end_s - start_s) / whole_s if whole_s > 0.0 else 1.0
        emitted = 0 if self.ended_s is None else sum(work.batch.emitted_tokens for work in self.works)
        energy_j = self.maker.energy_j(work.batch for work in self.works) * share
        return PassedSpan(
            engine.pool, engine.index, self.model, start_s, end_s, early, self.batch, self.waiting, self.cache_share,
            emitted, energy_j,
        )  # fmt: skip


class PassedIterations:
    """Keeps the iterations without spans until they can be told.

    Args:
        tell: takes them.
    """

    def __init__(self, tell: Callable[[PassedSpan], None]) -> None:
        self._tell = tell
        self._of: dict[Engine, Passing] = {}
        self._told: dict[Engine, int] = {}

    @property
    def earliest_s(self) -> float | None:
        """Start of the first that is not told, None where there is none."""
        return min((each.start_s for each in self._of.values()), default=None)

    def started(
        self, engine: Engine, work: Work, now: float, opened_s: float | None, make: Callable[[], Passing]
    ) -> None:
        """Take an iteration that starts; `make` is called where it is no continuation."""
        before = self._of.get(engine)
        if before is not None and before.ended_s == now and opened_s is not None:
            before.works.append(work)
            before.ended_s = None
            return
        self._finish(engine, opened_s, now)
        passing = make()
        passing.works.append(work)
        self._of[engine] = passing

    def ended(self, engine: Engine, now: float, opened_s: float | None) -> None:
        """Take the end of one; nothing is told before the window is open."""
        passing = self._of.get(engine)
        if passing is None or passing.ended_s is not None:
            return
        passing.ended_s = now
        told = self._told.get(engine, 0)
        if opened_s is None or told < SINGLE or len(passing.works) >= RUN:
            self._finish(engine, opened_s, now)

    def finish(self, opened_s: float, now: float) -> None:
        """Tell all that is left, as far as it has come."""
        for engine in list(self._of):
            self._finish(engine, opened_s, now)

    def _finish(self, engine: Engine, opened_s: float | None, now: float) -> None:
        passing = self._of.pop(engine, None)
        if passing is None or opened_s is None:
            return
        span = passing.span(engine, opened_s, now)
        if span.end_s > span.start_s:
            self._told[engine] = self._told.get(engine, 0) + 1
            self._tell(span)
