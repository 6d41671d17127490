"""Decode steps one after the other while one other job runs, without an event for each.

Every step shares the package with the job: speeds follow from fair sharing at its start and hold to its end, as in
`simulators.noi.fluid`.  The arithmetic is that of single steps, term by term, so dates are the same to the last bit;
resources on which the two never add up to more than 1 during the stretch are left out beforehand.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from simulators.iteration import Race, Stretch
from simulators.noi.sharing import TOLERANCE, pair_speeds
from simulators.package.decode import DecodeLines, contexts_of

FloatArray = NDArray[np.float64]


def steps_beside(lines: DecodeLines, race: Race) -> Stretch | None:
    """Return the decode steps that end before the rival does and before the horizon; None if there is none.

    The rival is left as it is at the start of the last of them, and `race.ends_s` gets the end of each.
    """
    entry, rival, horizon, ends = lines.entry, race.rival, race.horizon_s, race.ends_s
    contexts = contexts_of(race.first)
    growth = [part.decode_growth for part in (race.first.attended, *race.first.windowed)]
    shared = _Shared(lines, race, contexts, growth)
    now, durations, parts = race.start_s, [], []
    hulls = entry.hulls
    for _ in range(race.steps):
        longest = [
            hull[0][0] + hull[0][1] * contexts[window]
            if len(hull) == 1
            else max([base + slope * contexts[window] for base, slope in hull])
            for _, window, hull in hulls
        ]
        duration = entry.seconds
        for value in longest:
            duration += value
        theirs, mine = shared.speeds(contexts, longest, duration) if shared.meets else (1.0, 1.0)
        before = rival.state
        if theirs != rival.speed:
            rival.change_speed(theirs, now)
        now = now + duration if mine == 1.0 else now + duration / mine
        if not (now < rival.end_s and now < horizon):
            rival.state = before
            break
        durations.append(duration)
        parts.append(longest)
        ends.append(now)
        for window, by in enumerate(growth):
            contexts[window] += by
    return _stretch(lines, race, durations, parts) if durations else None


class _Shared:
    """The resources on which a decode step and its rival may meet during a race."""

    def __init__(self, lines: DecodeLines, race: Race, contexts: Sequence[int], growth: Sequence[int]) -> None:
        self._lines: list[tuple[float, float, tuple[float, ...], tuple[float, ...]]] = []
        if race.rival.usage is None:
            return
        usage, theirs = lines.usage, race.rival.usage
        # Contexts only grow, and with them busy seconds and durations: an upper bound of the busy shares.
        last = [context + race.steps * by for context, by in zip(contexts, growth, strict=True)]
        shortest = lines.entry.seconds + sum(lines.entry.longest(contexts))
        most = usage.busy_s(last, lines.entry.longest(last)) / shortest
        meet = np.flatnonzero(most + theirs > 1.0)
        self._lines = [
            (float(theirs[at]), float(usage.base[at]), _column(usage.per_context, at), _column(usage.per_second, at))
            for at in meet.tolist()
        ]

    @property
    def meets(self) -> bool:
        """Whether there is any."""
        return bool(self._lines)

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


def _column(table: FloatArray, at: int) -> tuple[float, ...]:
    return tuple(row[at] for row in table.tolist()) if len(table) else ()


def _stretch(lines: DecodeLines, race: Race, durations: list[float], longest: list[list[float]]) -> Stretch:
    """The steps as a stretch, with the seconds of each execution group summed in the order of single steps."""
    steps = len(durations)
    parts = [np.full(steps, value) for value in lines.entry.parts_s]
    for number, (group, _, _) in enumerate(lines.entry.hulls):
        parts[group] = parts[group] + np.array([values[number] for values in longest])
    return Stretch(race.first, np.array(durations), np.array(parts).reshape(len(parts), steps))
