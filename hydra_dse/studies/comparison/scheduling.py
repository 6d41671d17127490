"""Drives the courses of many loads over one executor: the first loads first, so that whole cases are done early."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from dataclasses import dataclass, field

from hydra_dse.studies.comparison.course import Case, Course
from hydra_dse.studies.comparison.runs import ComparisonRun
from hydra_dse.studies.comparison.tasks import Answer, Source, Task, perform


@dataclass
class _Active:
    """A course that waits for answers."""

    course: Course
    tasks: Sequence[Task] = ()
    futures: dict[Future[Answer], Task] = field(default_factory=dict)


@dataclass(frozen=True)
class Driver:
    """Runs courses, at most as many at a time as there are workers; every answer is kept as soon as it is there.

    Attributes:
        on_cases: takes the cases of a course when it ends.
        on_task: takes every task that was done, not those whose answers were stored.
    """

    run: ComparisonRun
    source: Source
    pool: Executor
    workers: int
    on_cases: Callable[[tuple[Case, ...]], None]
    on_task: Callable[[Task], None]

    def drive(self, courses: Sequence[Course]) -> None:
        """Run all courses to their ends."""
        waiting = list(reversed(courses))
        active: list[_Active] = []
        while waiting or active:
            while waiting and len(active) < max(self.workers, 1):
                one = _Active(waiting.pop())
                if not self._advance(one, None):
                    active.append(one)
            active = [one for one in active if not self._step(one)]
            pending = [future for one in active for future in one.futures]
            if pending and not any(future.done() for future in pending):
                wait(pending, return_when=FIRST_COMPLETED)

    def _step(self, one: _Active) -> bool:
        """Take the answers that are there; True where the course has ended."""
        for future in [future for future in one.futures if future.done()]:
            self._keep(one.futures.pop(future), future)
        return not one.futures and self._advance(one, self._answers(one.tasks))

    def _advance(self, one: _Active, answers: Sequence[Answer] | None) -> bool:
        """Send answers until a course needs some that take time; True where it has ended."""
        while True:
            try:
                one.tasks = next(one.course) if answers is None else one.course.send(answers)
            except StopIteration as end:
                self.on_cases(end.value)
                return True
            for task in one.tasks:
                if self.run.answer(task) is None:
                    self._submit(one, task)
            if one.futures:
                return False
            answers = self._answers(one.tasks)

    def _submit(self, one: _Active, task: Task) -> None:
        future = self.pool.submit(perform, self.source, task)
        if future.done():  # in this process: kept before the next one starts
            self._keep(task, future)
        else:
            one.futures[future] = task

    def _keep(self, task: Task, future: Future[Answer]) -> None:
        self.run.keep(task, future.result())
        self.on_task(task)

    def _answers(self, tasks: Sequence[Task]) -> list[Answer]:
        """What the run holds, not what was returned: a resumed run then has the same bytes."""
        found = [self.run.answer(task) for task in tasks]
        return [answer for answer in found if answer is not None]
