"""How long an iteration keeps every die group, memory site and link of the package busy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from simulators.iteration import Attended, Composition
from simulators.package.coefficients import PlacedHardware, PlacedOperator, PlacedPool
from simulators.package.decode import DecodeUsage
from simulators.package.experts import expert_bytes
from simulators.package.lines import affine_demand, depends_on_rows_only, undominated
from simulators.package.rows import demand_at

FloatArray = NDArray[np.float64]

SHARED_FEATURES = 7
"""(ran, rows, emits, emitted rows, prefill tokens, prefill sequences, decode sequences)."""


class UsageTable:
    """Busy seconds per feature of a composition, shape (features, sites + links).

    Features: the seven above, then prefill and decode context of every attention window, then the weight bytes of
    every mixture of experts, which are not linear in the rows.
    """

    def __init__(self, hardware: PlacedHardware, pool: PlacedPool, windows: tuple[int, ...]) -> None:
        self._windows = len(windows)
        self._precision = hardware.precision
        self._positions = hardware.positions
        self._experts: list[PlacedOperator] = []
        self._expert_bytes: dict[int, list[float]] = {}
        self.die_names = tuple(group.name for group in hardware.package.dies if group.count)
        self._of_group = np.array(
            [[float(name in names) for names in pool.die_groups] for name in self.die_names]
        ).reshape(len(self.die_names), len(pool.die_groups))
        capacity = hardware.links.capacity_bytes_per_s
        self._table = np.zeros((SHARED_FEATURES + 2 * (1 + self._windows), _width(hardware)))
        for placed in pool.operators:
            window = placed.operator.window
            self._add(placed, 0 if window is None else 1 + windows.index(window), capacity)

    def _add(self, placed: PlacedOperator, window: int, capacity: FloatArray) -> None:
        if not depends_on_rows_only(placed.operator):
            self._add_lines(placed, window, capacity)
            return
        at = 2 if placed.operator.rows_emitted else 0
        paths, count = placed.paths.weights, placed.operator.count
        per_byte = count * placed.streamed * np.concatenate((paths.site_s, paths.link_bytes / capacity))
        for transfer in placed.activations:
            per_row = count * transfer.bytes_per_row / capacity
            self._table[at + 1, -len(transfer.link_bytes) :] += per_row * transfer.link_bytes
        if placed.operator.routing is not None:
            self._experts.append(placed)
            self._table = np.concatenate((self._table, self._per_expert_byte(placed, per_byte, capacity)))
            return
        one, two = np.asarray(demand_at(placed, self._precision, np.array((1.0, 2.0))).weight_bytes).tolist()
        self._table[at] += (2.0 * one - two) * per_byte
        self._table[at + 1] += (two - one) * per_byte

    def _per_expert_byte(self, placed: PlacedOperator, per_byte: FloatArray, capacity: FloatArray) -> FloatArray:
        """Busy seconds per byte of expert weights: one row, or one a die where experts are placed whole."""
        if placed.experts is None:
            return per_byte[None, :]
        factor = placed.operator.count * placed.streamed
        return np.array(
            [factor * np.concatenate((path.site_s, path.link_bytes / capacity)) for path in placed.experts.paths]
        )

    def _add_lines(self, placed: PlacedOperator, window: int, capacity: FloatArray) -> None:
        """An operator with caches: its bytes are affine in the features of a composition."""
        bytes_of, paths = affine_demand(placed.operator, self._precision, self._positions), placed.paths
        rows = [0, 4, 5, 6, None, SHARED_FEATURES + 2 * window, SHARED_FEATURES + 2 * window + 1]
        operands = (
            (bytes_of.weights * placed.streamed, paths.weights),
            (bytes_of.kv_reads, paths.kv_reads),
            (bytes_of.kv_writes, paths.kv_writes),
            (bytes_of.state_reads, paths.state_reads),
            (bytes_of.state_writes, paths.state_writes),
        )
        for coefficients, path in operands:
            busy = placed.operator.count * np.concatenate((path.site_s, path.link_bytes / capacity))
            self._add_affine(rows, coefficients, busy)
        if paths.kv_access_bytes > 0.0:
            busy = np.concatenate((paths.kv_reads.site_s, np.zeros(len(paths.kv_reads.link_bytes))))
            per_access = placed.operator.count * paths.kv_access_bytes * busy
            self._add_affine(rows, bytes_of.kv_accesses, per_access)
        for transfer in placed.activations:
            busy = np.zeros(self._table.shape[1])
            busy[-len(transfer.link_bytes) :] = transfer.link_bytes / capacity * placed.operator.count
            self._add_affine(rows, bytes_of.rows * transfer.bytes_per_row, busy)

    def _add_affine(self, rows: Sequence[int | None], coefficients: FloatArray, busy: FloatArray) -> None:
        for row, coefficient in zip(rows, coefficients.tolist(), strict=True):
            if row is not None:
                self._table[row] += coefficient * busy

    @property
    def table(self) -> FloatArray:
        """Busy seconds per feature, shape (features, resources)."""
        return self._table

    def keep(self, resources: Sequence[int]) -> None:
        """Leave out all sites and links but these."""
        self._table = np.ascontiguousarray(self._table[:, resources])

    def busy_s(self, batch: Composition, group_s: FloatArray) -> FloatArray:
        """Seconds that die groups, and the sites and links kept, are busy with an iteration, in this order.

        Args:
            batch: its composition.
            group_s: seconds of each execution group.
        """
        rows = batch.rows
        emitted = batch.emitted_tokens
        values: list[float] = [
            1.0,
            rows,
            1.0 if emitted else 0.0,
            emitted,
            batch.prefill_tokens,
            batch.prefill_sequences,
            batch.decode_sequences,
        ]
        for part in (batch.attended, *batch.windowed):
            values += (part.prefill_tokens, part.decode_tokens)
        if self._experts:
            values += self._weights_of_experts(rows)
        return np.concatenate((self._of_group @ group_s, np.array(values) @ self._table))

    def decode(self, decoders: int, group_s: FloatArray, hull_groups: Sequence[int]) -> DecodeUsage:
        """Busy seconds of a decode step of so many sequences, as lines.

        Args:
            decoders: sequences.
            group_s: seconds of each execution group without the operators that depend on contexts.
            hull_groups: execution group of each of those.
        """
        rows, nothing = decoders * self._positions, (Attended(),) * self._windows
        no_context = Composition(0, 0, decoders, rows, Attended(), nothing, self._positions)
        dies = len(self.die_names)
        contexts = [
            np.concatenate((np.zeros(dies), self._table[SHARED_FEATURES + 2 * window + 1]))
            for window in range(1 + self._windows)
        ]
        longest = [np.concatenate((self._of_group[:, group], np.zeros(self._table.shape[1]))) for group in hull_groups]
        return DecodeUsage(self.busy_s(no_context, group_s), np.array(contexts), np.array(longest))

    def _weights_of_experts(self, rows: int) -> list[float]:
        if rows not in self._expert_bytes:
            self._expert_bytes[rows] = [
                amount for placed in self._experts for amount in self._bytes_of_experts(placed, float(rows))
            ]
        return self._expert_bytes[rows]

    def _bytes_of_experts(self, placed: PlacedOperator, rows: float) -> list[float]:
        if placed.experts is not None:
            read: list[float] = expert_bytes(placed, placed.experts, self._precision, np.array((rows,)))[0].tolist()
            return read
        return [float(np.asarray(demand_at(placed, self._precision, np.array((rows,))).weight_bytes)[0])]


class Contended(Protocol):
    """Busy seconds of sites and links by feature, of which some may be left out."""

    @property
    def table(self) -> FloatArray:
        """Shape (features, resources)."""

    def keep(self, resources: Sequence[int]) -> None:
        """Leave out all but these."""


def keep_contended(tables: Sequence[Contended]) -> None:
    """Leave out resources that never decide how iterations of these pools share the package.

    Where one resource is busier than another for every feature of every pool, the other never binds first.
    """
    kept = sorted(undominated(np.concatenate([table.table for table in tables]).T))
    for table in tables:
        table.keep(kept)


def _width(hardware: PlacedHardware) -> int:
    return hardware.site_count + hardware.links.count
