"""Many placed packages of one recipe as tables of rows, all at once.

`RowMaker` is the readable form, one package at a time; tests hold both together.  Activations between two die groups
are counted once and weighted afterwards, because all dies of a group have the same share of the work.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from hydra_dse.mapping import imbalance, overlaps
from hydra_dse.profile.cut import Parts
from hydra_dse.profile.packages import Packages
from hydra_dse.profile.recipe import HOMES, Move, PoolRecipe
from hydra_dse.profile.row_table import RowTable
from hydra_dse.profile.rows import KINDS, READS, WEIGHTS, WRITES
from hydra_dse.profile.spread import Flows, joined, link_loads, longest_path

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


def lower(packages: Packages) -> tuple[RowTable, ...]:
    """Return the rows of all pools, one table a pool."""
    return tuple(_Pool(packages, pool).table() for pool in packages.recipe.pools)


class _Pool:
    """Rows of one pool."""

    def __init__(self, packages: Packages, pool: PoolRecipe) -> None:
        self.on, self.pool, self.cut = packages, pool, packages.cut
        self.size = len(packages.table)
        self.held = 3 * len(pool.groups)
        self.work = [
            self.cut.work(groups) if scans is None else self.cut.scans(groups, scans)
            for groups, scans in zip(pool.groups, pool.scans, strict=True)
        ]
        self.homes = self.cut.work(pool.members)
        self.cache = [self.cut.fetch(work, packages.recipe.homes) for work in self.work]
        self.weights = [
            cache if split == "tensor" else self.cut.bandwidth[:, :, None] * self.cut.dies.within(groups)[:, None, :]
            for cache, split, groups in zip(self.cache, pool.parallelism, pool.groups, strict=True)
        ]

    def table(self) -> RowTable:
        """Return the rows."""
        on, pool = self.on, self.pool
        names = tuple(dict.fromkeys(number for group in pool.groups for number in group))
        loads, hops = self._activations()
        loads[:, : self.held] = self._memory_loads()
        site_s, site_j = self._sites()
        latency = [sum([hops[:, p - self.held] for p in used], np.zeros(self.size)) for used in pool.transfer_patterns]
        return RowTable(
            operators=pool.operators,
            transfer_patterns=pool.transfer_patterns,
            group_dies=tuple(tuple(names.index(number) for number in group) for group in pool.groups),
            parallelism=pool.parallelism,
            names=tuple(on.recipe.groups[number] for number in names),
            link_s=loads / on.capacity[:, :, None],
            site_s=site_s,
            hop_j=(loads.sum(axis=2) * on.link_j).T,
            site_j=site_j,
            latency_s=np.array(latency) * on.hop_s[:, 0],
            resident=self._resident(),
            imbalance=self._imbalance(),
            share=self._shares(names),
            count=self.cut.dies.count[:, names].T.astype(np.float64),
            rates=tuple(on.rates[number] for number in names),
        )

    def _memory_loads(self) -> FloatArray:
        """Bytes on links per byte of weights, cache reads and cache writes of each group, shape (n, 3G, links)."""
        parts, alike = [], []
        stacks, dies = self.cut.stacks, self.cut.dies
        for number, (weights, cache) in enumerate(zip(self.weights, self.cache, strict=True)):
            at = 3 * number
            parts.append(self._between(weights, at + WEIGHTS, stacks, dies))
            if not self.pool.caches[number]:
                continue
            parts.append(self._between(cache.swapaxes(1, 2), at + WRITES, dies, stacks))
            if weights is cache:  # read along the same paths
                alike.append(at)
            else:
                parts.append(self._between(cache, at + READS, stacks, dies))
        loads = link_loads(self.on.paths, self.on.table, joined(parts), self.held)
        for at in alike:
            loads[:, at + READS] = loads[:, at + WEIGHTS]
        return loads

    def _between(self, share: FloatArray, pattern: int, sources: Parts, targets: Parts) -> Flows:
        row, source, target = np.nonzero(share)
        return Flows(
            row,
            np.full(len(row), pattern, dtype=np.int64),
            sources.slot[row, source],
            targets.slot[row, target],
            share[row, source, target],
        )

    def _activations(self) -> tuple[FloatArray, FloatArray]:
        """Loads of all patterns, shape (n, P, links), zero for memory, and hops of the moves, shape (n, moves)."""
        on, moves = self.on, self.pool.moves
        classes, class_hops = self._classes()
        loads = np.zeros((self.size, self.held + len(moves), on.paths.count))
        hops = np.zeros((self.size, len(moves)))
        even = [number for number, move in enumerate(moves) if not move.overlap]
        if even:
            weight = np.stack([self._class_weights(moves[number]) for number in even], axis=1)
            loads[:, [self.held + number for number in even]] = weight @ classes
            hops[:, even] = np.where(weight > 0, class_hops[:, None, :], 0).max(axis=2)
        uneven = [number for number, move in enumerate(moves) if move.overlap]
        if uneven:
            flows = joined([self._overlapping(moves[number], place) for place, number in enumerate(uneven)])
            loads[:, [self.held + number for number in uneven]] = link_loads(on.paths, on.table, flows, len(uneven))
            hops[:, uneven] = longest_path(on.paths, on.table, flows, len(uneven))
        return loads, hops

    def _classes(self) -> tuple[FloatArray, IntArray]:
        """Paths on each link, and links of the longest path, from each die group of the pool to each other.

        Shapes (n, members², links) and (n, members²).
        """
        dies, members = self.cut.dies, self.pool.members
        place = np.full(dies.count.shape[1] + 1, len(members))
        place[list(members)] = np.arange(len(members))
        own = place[dies.group]
        pairs = (own < len(members))[:, :, None] & (own < len(members))[:, None, :]
        row, source, target = np.nonzero(pairs & ~np.eye(own.shape[1], dtype=bool))
        flows = Flows(
            row,
            own[row, source] * len(members) + own[row, target],
            dies.slot[row, source],
            dies.slot[row, target],
            np.ones(len(row)),
        )
        count = len(members) ** 2
        return (
            link_loads(self.on.paths, self.on.table, flows, count),
            longest_path(self.on.paths, self.on.table, flows, count),
        )

    def _class_weights(self, move: Move) -> FloatArray:
        """Bytes from each die of one group to each of another, shape (n, members²)."""
        part = self._per_group(self.homes, self.pool.members)
        first = [move.source == HOMES or member in self.pool.groups[move.source] for member in self.pool.members]
        second = [move.target == HOMES or member in self.pool.groups[move.target] for member in self.pool.members]
        among = np.outer(first, second)
        share = part[:, :, None] if move.kind == "gather" else part[:, None, :]
        return np.asarray((share * among).reshape(self.size, -1))

    def _overlapping(self, move: Move, pattern: int) -> Flows:
        first, second = (self.homes if end == HOMES else self.work[end] for end in (move.source, move.target))
        share = overlaps(first, second)
        diagonal = np.arange(share.shape[1])
        share[:, diagonal, diagonal] = 0.0
        return self._between(share, pattern, self.cut.dies, self.cut.dies)

    def _sites(self) -> tuple[FloatArray, FloatArray]:
        """Seconds per byte of each kind at each stack, (n, 3G, Z), and joules per byte of weights, caches, (2G, n)."""
        joules = self.cut.stacks.of(self.on.stacks["joules_per_byte"])
        seconds, energy = [], []
        for weights, cache in zip(self.weights, self.cache, strict=True):
            by_group = [fetch @ self.cut.dies.one_hot for fetch in (weights, cache)]
            for number, kind in enumerate(KINDS):
                fetch = by_group[kind != "weights"]
                seconds.append((fetch / self.on.reached[..., number]).sum(axis=2))
            energy += [(fetch.sum(axis=2) * joules).sum(axis=1) for fetch in by_group]
        return np.stack(seconds, axis=1), np.array(energy)

    def _per_group(self, work: FloatArray, groups: Sequence[int]) -> FloatArray:
        """Share of one die of each die group, shape (n, groups)."""
        ends = self.cut.dies.count.cumsum(axis=1)[:, list(groups)]
        return np.take_along_axis(work, ends - 1, axis=1)

    def _shares(self, names: tuple[int, ...]) -> FloatArray:
        """Share of the work of a die, shape (G, D, n); 0 where a die group is not in an execution group."""
        return np.array([self._per_group(work, names).T for work in self.work])

    def _resident(self) -> FloatArray:
        """Share of the weights of each operator that stays in SRAM, shape (O, n)."""
        recipe, pool = self.on.recipe, self.pool
        count = self.cut.dies.count
        weights = pool.resident_weights * recipe.operands.precision.weight_bytes
        held = np.zeros(self.size)
        if weights > 0:
            members = list(pool.members)
            sram = sum((count[:, m] * self.on.sram_bytes[:, m] / recipe.uses[m] for m in members), np.zeros(self.size))
            copies = 1 if pool.parallelism[0] == "tensor" else count[:, members].sum(axis=1)
            held = np.minimum(1.0, recipe.sram_weight_share * sram / (weights * copies))
        return np.where(np.array(pool.keeps)[:, None], held, 0.0)

    def _imbalance(self) -> FloatArray:
        """Work of the most loaded die over its fair share, shape (O, n)."""
        found: dict[tuple[int, int], FloatArray] = {}
        shares: dict[int, list[tuple[float, ...]]] = {}
        for mapped in self.pool.operators:
            units, group = mapped.operator.parallel_units, mapped.group
            if (units, group) in found:
                continue
            if units <= 0 or self.pool.parallelism[group] != "tensor":
                found[units, group] = np.ones(self.size)
                continue
            if group not in shares:
                mine = self.cut.dies.within(self.pool.groups[group])
                shares[group] = [tuple(row[there].tolist()) for row, there in zip(self.work[group], mine, strict=True)]
            found[units, group] = np.array([imbalance(units, share) for share in shares[group]])
        return np.array([found[mapped.operator.parallel_units, mapped.group] for mapped in self.pool.operators])
