"""Iterations of a pool on its placed package, from their exact composition.

`duration = overhead + Σ_operators count · (max(slowest die, busiest site, busiest link) + fixed)`: operators run one
after the other, inside an operator compute, memory and network overlap.  Operators that depend on their rows alone
come from tables; attention and state are straight lines (`simulators.package.lines`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from simulators.iteration import Composition, Race, Stretch, Work
from simulators.package.beside import steps_beside
from simulators.package.coefficients import PlacedHardware, PlacedPool
from simulators.package.decode import DecodeEntry, DecodeLines, contexts_of
from simulators.package.lines import CONTEXT, SHARED, depends_on_rows_only, time_lines, upper_hull
from simulators.package.rows import RowTable
from simulators.package.tally import Counts, Tally
from simulators.package.usage import UsageTable

FloatArray = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class LineOperator:
    """An operator whose time is the highest of some lines.

    Attributes:
        lines: seconds of all instances, `fixed_s` included, shape (lines, 1 + features).
        window: 0 without a window, else its number among the windows of the cost model from 1.
    """

    group: int
    window: int
    lines: FloatArray


class PackageCost:
    """Cost of the iterations of one pool (an `IterationCost`)."""

    def __init__(self, hardware: PlacedHardware, pool: str) -> None:
        self.hardware = hardware
        self.placed: PlacedPool = hardware.pool(pool)
        precision, capacity = hardware.precision, hardware.links.capacity_bytes_per_s
        self.positions = hardware.positions
        by_rows = [placed for placed in self.placed.operators if depends_on_rows_only(placed.operator)]
        by_lines = [placed for placed in self.placed.operators if not depends_on_rows_only(placed.operator)]
        self.windows = tuple(
            sorted({placed.operator.window for placed in by_lines if placed.operator.window is not None})
        )
        groups = len(self.placed.die_groups)
        self.tokens = RowTable([p for p in by_rows if not p.operator.rows_emitted], groups, precision, capacity)
        self.emitted = RowTable([p for p in by_rows if p.operator.rows_emitted], groups, precision, capacity)
        self.line_operators = tuple(
            LineOperator(
                placed.group,
                0 if placed.operator.window is None else 1 + self.windows.index(placed.operator.window),
                placed.operator.count
                * _with_fixed(time_lines(placed, precision, capacity, self.positions), placed.fixed_s),
            )
            for placed in by_lines
        )
        self._stack_lines(groups)
        self.reset()
        self.usages = UsageTable(hardware, self.placed, self.windows)
        self._decode: dict[int, DecodeEntry] = {}
        self._decode_lines: dict[int, DecodeLines] = {}
        self._lines_of = self.usages.table

    def _stack_lines(self, groups: int) -> None:
        """All lines as one matrix over (1, prefill tokens, sequences, then three features per window)."""
        width = SHARED + 3 * (1 + len(self.windows))
        rows = []
        for operator in self.line_operators:
            wide = np.zeros((len(operator.lines), width))
            wide[:, :SHARED] = operator.lines[:, :SHARED]
            start = SHARED + 3 * operator.window
            wide[:, start : start + 3] = operator.lines[:, SHARED:]
            rows.append(wide)
        self._lines = np.concatenate(rows) if rows else np.zeros((0, width))
        self._starts = np.cumsum([0, *(len(wide) for wide in rows)])[:-1]
        self._to_group = np.zeros((groups, len(rows)))
        for number, operator in enumerate(self.line_operators):
            self._to_group[operator.group, number] = 1.0

    # -- one iteration ----------------------------------------------------------------------------------------

    def work(self, batch: Composition) -> Work:
        """Return the iteration with this composition."""
        if not batch.prefill_tokens:
            return self._decode_step(batch)
        rows = batch.rows
        self.tokens.reach(rows)
        self.emitted.reach(batch.emitted_tokens)
        parts: list[float] = [0.0] * len(self.placed.die_groups)
        if len(self._starts):
            seconds = np.maximum.reduceat(self._lines @ _features(batch), self._starts)
            parts = (self._to_group @ seconds).tolist()
        duration = self.placed.iteration_overhead_s + self.tokens.total_s[rows] + sum(parts)
        return Work(duration + self.emitted.total_s[batch.emitted_tokens], batch, tuple(parts), self.usages_of)

    def _decode_step(self, batch: Composition) -> Work:
        """A step without prompts: the part that contexts do not change is known by the number of sequences."""
        entry = self._decode_entry(batch.decode_sequences)
        seconds, parts = entry.seconds, list(entry.parts_s)
        for group, window, hull in entry.hulls:
            part = batch.windowed[window - 1] if window else batch.attended
            context = part.decode_tokens
            longest = max([base + slope * context for base, slope in hull])
            seconds += longest
            parts[group] += longest
        return Work(seconds, batch, tuple(parts), self.usages_of)

    def stretch(self, first: Composition, steps: int) -> Stretch:
        """Return consecutive decode steps: the arithmetic of `work`, element by element."""
        entry = self._decode_entry(first.decode_sequences)
        seconds = np.full(steps, entry.seconds)
        parts = [np.full(steps, value) for value in entry.parts_s]
        for group, window, hull in entry.hulls:
            part = first.windowed[window - 1] if window else first.attended
            context = part.decode_tokens + part.decode_growth * np.arange(steps)
            longest = hull[0][0] + hull[0][1] * context
            for base, slope in hull[1:]:
                longest = np.maximum(longest, base + slope * context)
            seconds = seconds + longest
            parts[group] = parts[group] + longest
        return Stretch(first, seconds, np.array(parts).reshape(len(parts), steps))

    def _decode_entry(self, decoders: int) -> DecodeEntry:
        if decoders not in self._decode:
            rows = decoders * self.positions
            self.tokens.reach(rows)
            self.emitted.reach(rows)
            seconds = self.placed.iteration_overhead_s + self.tokens.total_s[rows] + self.emitted.total_s[rows]
            parts = [0.0] * len(self.placed.die_groups)
            hulls = []
            at = np.array((1.0, 0.0, 0.0, decoders, 0.0, 0.0))
            for operator in self.line_operators:
                bases, slopes = operator.lines[:, :CONTEXT] @ at, operator.lines[:, CONTEXT]
                hull = upper_hull(list(zip(bases.tolist(), slopes.tolist(), strict=True)))
                if len(hull) == 1 and hull[0][1] == 0.0:
                    parts[operator.group] += hull[0][0]
                    seconds += hull[0][0]
                else:
                    hulls.append((operator.group, operator.window, tuple(hull)))
            self._decode[decoders] = DecodeEntry(seconds, tuple(parts), tuple(hulls))
        return self._decode[decoders]

    # -- accounting -------------------------------------------------------------------------------------------

    def usages_of(self, work: Work) -> FloatArray:
        """Busy share of every die group, memory site and link while an iteration runs alone."""
        batch = work.batch
        if not batch.prefill_tokens:
            lines = self.decode_lines(batch.decode_sequences)
            contexts = contexts_of(batch)
            return np.asarray(lines.usage.busy_s(contexts, lines.entry.longest(contexts)) / work.duration_s)
        rows = batch.rows
        group_s = self.tokens.group_s[rows] + self.emitted.group_s[batch.emitted_tokens] + np.array(work.parts_s)
        return self.usages.busy_s(batch, group_s) / work.duration_s

    def decode_lines(self, decoders: int) -> DecodeLines:
        """Duration and busy seconds of decode steps of so many sequences, as functions of their contexts."""
        if self._lines_of is not self.usages.table:
            self._lines_of, self._decode_lines = self.usages.table, {}
        found = self._decode_lines.get(decoders)
        if found is None:
            entry = self._decode_entry(decoders)
            rows = decoders * self.positions
            group_s = self.tokens.group_s[rows] + self.emitted.group_s[rows] + np.array(entry.parts_s)
            usage = self.usages.decode(decoders, group_s, [group for group, _, _ in entry.hulls])
            found = self._decode_lines[decoders] = DecodeLines(entry, usage)
        return found

    def beside(self, race: Race) -> Stretch | None:
        """Take decode steps while another job runs: see `simulators.package.beside`."""
        return steps_beside(self.decode_lines(race.first.decode_sequences), race)

    def count(self, work: Work) -> None:
        """Book an iteration that has ended."""
        self.tally.add(work)

    def count_stretch(self, stretch: Stretch) -> None:
        """Book decode steps that have ended."""
        self.tally.add_stretch(stretch)

    def snapshot(self) -> Counts:
        """Return what has been counted so far."""
        return self.tally.counts()

    def reset(self) -> None:
        """Forget what has been counted."""
        self.tally = Tally(len(self.windows), len(self.placed.die_groups))


def _with_fixed(lines: FloatArray, fixed_s: float) -> FloatArray:
    lines = lines.copy()
    lines[:, 0] += fixed_s
    return lines


def _features(batch: Composition) -> FloatArray:
    values = [1.0, batch.prefill_tokens, batch.prefill_sequences, batch.decode_sequences]
    for part in (batch.attended, *batch.windowed):
        values += (part.prefill_pairs, part.prefill_tokens, part.decode_tokens)
    return np.array(values)
