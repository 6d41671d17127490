"""Decode steps one after the other while one other job runs, without an event for each.

Every step shares the package with the job: speeds follow from fair sharing at its start and hold to its end, as in
`simulators.noi.fluid`.  The arithmetic is that of single steps, term by term, so dates are the same to the last bit;
resources on which the two never add up to more than 1 during the stretch are left out beforehand.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from simulators.iteration import Race, Rival, Stretch
from simulators.noi.sharing import TOLERANCE, pair_speeds
from simulators.package.decode import DecodeLines, contexts_of


def steps_beside(lines: DecodeLines, race: Race) -> Stretch | None:
    """Return the decode steps that end before the rival does and before the horizon; None if there is none.

    The rival is left as it is at the start of the last of them, and `race.ends_s` gets the end of each.
    """
    entry, rival, ends = lines.entry, race.rival, race.ends_s
    contexts = contexts_of(race.first)
    growth = [part.decode_growth for part in (race.first.attended, *race.first.windowed)]
    shared = None if rival is None else _Shared(lines, race, rival, contexts, growth)
    now, horizon = race.start_s, race.horizon_s
    durations: list[float] = []
    parts: list[list[float]] = []
    for _ in range(race.steps):
        longest = entry.longest(contexts)
        duration = entry.seconds
        for value in longest:
            duration += value
        if rival is None:
            now += duration
        else:
            theirs, mine = (1.0, 1.0) if shared is None or shared.apart else shared.speeds(contexts, longest, duration)
            before = rival.state
            if theirs != rival.speed:
                rival.change_speed(theirs, now)
            now = now + duration if mine == 1.0 else now + duration / mine
            if not now < rival.end_s or not now < horizon:
                rival.state = before
                break
        if not now < horizon:
            break
        durations.append(duration)
        parts.append(longest)
        ends.append(now)
        for window, by in enumerate(growth):
            contexts[window] += by
    return _stretch(lines, race, durations, parts) if durations else None


class _Shared:
    """The resources on which a decode step and its rival may meet during a race.

    Attributes:
        apart: whether there is none.
    """

    def __init__(
        self, lines: DecodeLines, race: Race, rival: Rival, contexts: Sequence[int], growth: Sequence[int]
    ) -> None:
        self._lines: list[tuple[float, float, tuple[float, ...], tuple[float, ...]]] = []
        self.apart = True
        if rival.usage is None:
            return
        theirs = rival.usage
        last = [context + race.steps * by for context, by in zip(contexts, growth, strict=True)]
        meet = (lines.most(contexts, last) + theirs > 1.0).nonzero()[0]
        self._lines = [(float(theirs[at]), *lines.usage.column(at)) for at in meet.tolist()]
        self.apart = not self._lines

    def speeds(self, contexts: Sequence[int], longest: Sequence[float], duration: float) -> tuple[float, float]:
        """Speeds of the rival and of a step."""
        pairs = []
        for theirs, busy, per_context, per_second in self._lines:
            for context, slope in zip(contexts, per_context):  # noqa: B905 (one entry a window, checked before)
                busy += context * slope
            for seconds, slope in zip(longest, per_second):  # noqa: B905
                busy += seconds * slope
            mine = busy / duration
            if theirs + mine > 1.0 + TOLERANCE:
                pairs.append((theirs, mine))
        return pair_speeds(pairs) if pairs else (1.0, 1.0)


def _stretch(lines: DecodeLines, race: Race, durations: list[float], longest: list[list[float]]) -> Stretch:
    """The steps as a stretch, with the seconds of each execution group summed in the order of single steps."""
    parts = [[value] * len(durations) for value in lines.entry.parts_s]
    for number, (group, _, _) in enumerate(lines.entry.hulls):
        parts[group] = [sum_s + values[number] for sum_s, values in zip(parts[group], longest, strict=True)]
    return Stretch(race.first, np.array(durations), parts)
