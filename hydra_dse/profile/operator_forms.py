"""Forms of operators: their times, bytes and energy as sums over features of the batch, with factors by row."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from hydra_dse.mapping import MappedOperator
from hydra_dse.model.operators import Number, Operator, OperatorClass
from hydra_dse.model.precision import Precision
from hydra_dse.operator_cost import DieRates, launch_s, tiles_of
from hydra_dse.profile.features import DemandForms, Feature, FeatureList, Form, Tiles, add_to, added, forms_of, scaled
from hydra_dse.profile.operators import largest
from hydra_dse.profile.row_table import RowTable
from hydra_dse.profile.rows import READS, WEIGHTS, WRITES

FloatArray = NDArray[np.float64]


class FormMaker:
    """Forms of the operators of a table; factors that differ by design are arrays over its rows."""

    def __init__(
        self, table: RowTable, precision: Precision, rates: Sequence[DieRates], patterns: Sequence[Sequence[int]]
    ) -> None:
        self.table, self.precision, self.rates, self.patterns = table, precision, rates, patterns
        self.tiles: list[Tiles] = []
        self.features = FeatureList(self.tiles)
        self.forms = [forms_of(mapped.operator, precision) for mapped in table.operators]

    def bounds(
        self,
        number: int,
        _: Sequence[int],
        kinds: Sequence[int],
        link_s: FloatArray,
        site_s: FloatArray,
    ) -> FloatArray | None:
        """What each die, link and site needs for all instances of an operator; None where that is no sum.

        Shape (rows, bounds, features so far).
        """
        mapped = self.table.operators[number]
        own: list[Form] = []
        for die in self.table.group_dies[mapped.group]:
            of_die = self._die(number, die)
            if of_die is None:
                return None
            own += of_die
        moved, by_kind = [form for _, form in self.pattern_forms(number)], self.busy_forms(number)
        parts = [self.dense([form for form in own if form])]
        parts += [self._weighted(link_s, moved), self._weighted(site_s, [by_kind[kind] for kind in kinds])]
        size = len(self.features.index)
        found = np.concatenate([on_features(part, size) for part in parts], axis=1)
        return found * mapped.operator.count if np.isfinite(found).all() else None

    def _weighted(self, loads: FloatArray, forms: Sequence[Form]) -> FloatArray:
        """`Σ_p loads[p, r]·forms[p]` of each resource, shape (rows, resources, features so far).

        Loads have shape (patterns, resources, rows).
        """
        some = [place for place, form in enumerate(forms) if form]
        by_row = loads[some].transpose(2, 1, 0)
        return np.asarray(by_row @ self.dense([forms[place] for place in some]))

    def _die(self, number: int, die: int) -> list[Form] | None:
        """Compute and SRAM of a die, as in `operator_cost.compute_time_s`."""
        mapped, forms, rates = self.table.operators[number], self.forms[number], self.rates[die]
        operator, group = mapped.operator, mapped.group
        parallelism, share = self.table.parallelism[group], self.table.share[group, die]
        if parallelism not in ("tensor", "replica"):
            return None
        load, efficiency = share * self.table.imbalance[number], rates.compute[operator.kind]
        matmul_flops, vector_flops = _work(operator, forms, rates.style)
        with np.errstate(divide="ignore", invalid="ignore"):
            matmul = [scaled(matmul_flops, load / (rates.matmul_flops_per_s * efficiency))]
            vector = scaled(vector_flops, load / (rates.vector_flops_per_s * efficiency))
        if operator.reduce_width > 0 and operator.output_width > 0 and operator.kind is not OperatorClass.EMBEDDING:
            if operator.routing is not None and operator.kind is OperatorClass.EXPERTS:
                return None
            tiled = self._tiled(mapped, die, matmul[0])
            if tiled is None:
                return None
            matmul = tiled
        busy = [added(one, vector) for one in matmul] if rates.style == "vector" else [*matmul, vector]
        weights = scaled(forms.weight_bytes, 1.0 if parallelism == "replica" else share)
        passed = added(weights, scaled(_cached(forms), share), scaled(forms.activation_bytes, share))
        return [*busy, scaled(passed, 1.0 / np.asarray(rates.sram_bytes_per_s))]

    def _tiled(self, mapped: MappedOperator, die: int, matmul: Form) -> list[Form] | None:
        """Matrix time times `operator_cost.inverse_utilisation`; None where FLOPs do not follow the rows alone."""
        operator, group, rates = mapped.operator, mapped.group, self.rates[die]
        rows = Feature("rows", operator.rows_emitted)
        if set(matmul) - {rows}:
            return None
        if not matmul:
            return [matmul]
        replica = self.table.parallelism[group] == "replica"
        share = self.table.share[group, die]
        wide: Number = float(operator.reduce_width)
        outer: Number = float(operator.output_width)
        if not replica:
            summed = operator.reduce_elements_per_token > 0 and operator.gather_elements_per_token <= 0
            wide, outer = (wide * share, outer) if summed else (wide, outer * share)
        if rates.half_width > 0:
            matmul = scaled(matmul, 1.0 + rates.half_width / np.maximum(np.minimum(wide, outer), 1.0))
        if rates.style == "vector" and not rates.shape_efficiency:
            return [matmul]
        factor, height, width = matmul[rows], rates.array_rows, rates.array_columns

        tiles = self._tiles(die, share if replica else np.ones(self.table.size))

        def tile(name: str) -> Feature:
            return Feature(name, operator.rows_emitted, tiles=tiles)

        if rates.shape_efficiency:
            return [{tile("measured"): factor}]
        if rates.style != "systolic":
            return [{tile("padded"): factor * (tiles_of(outer, width) * width / outer)}]
        # cycles / ideal as in `utilisation`: folds that stream rows, and one fill; never below 1.
        folds = tiles_of(wide, height) * tiles_of(outer, width)
        area = height * width / (wide * outer)
        fill = (2.0 * height + width - 2.0) * rates.cores
        return [matmul, {tile("streamed"): factor * folds * area, tile("filled"): factor * fill * area}]

    def _tiles(self, die: int, share: FloatArray) -> int:
        """Number of the tiles of a die whose rows are a share of all; dies with the same tiles have them in common."""
        rates = self.rates[die]
        mine = Tiles(np.broadcast_to(rates.array_rows, self.table.size), share, rates.shape_efficiency)
        for number, tiles in enumerate(self.tiles):
            if tiles.equals(mine):
                return number
        self.tiles.append(mine)
        return len(self.tiles) - 1

    def pattern_forms(self, number: int) -> list[tuple[int, Form]]:
        """Bytes of one instance along each of its traffic patterns."""
        mapped, forms = self.table.operators[number], self.forms[number]
        base, held_patterns = 3 * mapped.group, 3 * len(self.table.group_dies)
        held: dict[int, Form] = {
            base + WEIGHTS: scaled(forms.weight_bytes, 1.0 - self.table.resident[number]),
            base + READS: added(forms.kv_read_bytes, forms.state_bytes),
            base + WRITES: added(forms.kv_write_bytes, forms.state_bytes),
        }
        width = self.precision.activation_bytes
        moved = iter([{forms.rows: transfer.elements_per_token * width} for transfer in mapped.transfers])
        return [(p, held[p] if p < held_patterns else next(moved)) for p in self.patterns[number]]

    def kind_forms(self, number: int) -> dict[int, Form]:
        """Bytes of one instance by access kind."""
        base, forms = 3 * self.table.operators[number].group, self.forms[number]
        return {
            base: scaled(forms.weight_bytes, 1.0 - self.table.resident[number]),
            base + 1: added(forms.kv_read_bytes, forms.kv_write_bytes),
            base + 2: scaled(forms.state_bytes, 2.0),
        }

    def busy_forms(self, number: int) -> dict[int, Form]:
        """Bytes by access kind for the time they take: the starts of accesses to KV count as the bytes they cost."""
        found, group = self.kind_forms(number), self.table.operators[number].group
        start = max(self.rates[die].kv_access_bytes for die in self.table.group_dies[group])
        if start > 0.0:
            found[3 * group + 1] = added(found[3 * group + 1], scaled(self.forms[number].kv_accesses, start))
        return found

    def times(self, numbers: Sequence[int]) -> list[Form]:
        """Overheads and latencies of the operators of each group, and the overhead of an iteration."""
        found: list[dict[Feature, Number]] = [{} for _ in self.table.group_dies]
        for number in numbers:
            mapped = self.table.operators[number]
            dies = self.table.group_dies[mapped.group]
            count = self.table.count[list(dies)].sum(axis=0)
            overhead = largest([launch_s(mapped.operator, self.rates[die], count) for die in dies])
            each = mapped.operator.count * (overhead + self.table.latency_s[number])
            add_to(found[mapped.group], {self.forms[number].runs: each})
        iteration = largest([rates.iteration_overhead_s for rates in self.rates])
        return [*found, {Feature("runs"): iteration}]

    def totals(self, numbers: Sequence[int]) -> list[Form]:
        """Energy but for the links', bytes by pattern, and by access kind as in `busy_forms`, of all instances."""
        patterns: list[dict[Feature, Number]] = [{} for _ in range(self.table.link_s.shape[1])]
        kinds: list[dict[Feature, Number]] = [{} for _ in range(self.table.site_s.shape[1])]
        energy: dict[Feature, Number] = {}
        for number in numbers:
            mapped = self.table.operators[number]
            count, group = mapped.operator.count, mapped.group
            for pattern, form in self.pattern_forms(number):
                add_to(patterns[pattern], form, count)
            for kind, form in self.busy_forms(number).items():
                add_to(kinds[kind], form, count)
            for kind, form in self.kind_forms(number).items():
                joules = self.table.site_j[2 * group + (kind % 3 > 0)]
                add_to(energy, form, count * joules)
            for die in self.table.group_dies[group]:
                self._add_die_energy(energy, number, die)
        return [energy, *patterns, *kinds]

    def die_totals(self, numbers: Sequence[int]) -> list[Form]:
        """Energy in the dies of each die group, of all instances."""
        found: list[dict[Feature, Number]] = [{} for _ in self.table.names]
        for number in numbers:
            for die in self.table.group_dies[self.table.operators[number].group]:
                self._add_die_energy(found[die], number, die)
        return list(found)

    def _add_die_energy(self, total: dict[Feature, Number], number: int, die: int) -> None:
        """Add that of the dies of a kind for all instances, as in `operator_cost.die_energy_j`."""
        mapped, forms, rates = self.table.operators[number], self.forms[number], self.rates[die]
        count = mapped.operator.count * self.table.count[die]
        shared = count * self.table.share[mapped.group, die]
        matmul, vector = _work(mapped.operator, forms, rates.style)
        copied = self.table.parallelism[mapped.group] == "replica"
        add_to(total, matmul, shared * rates.joules_per_flop)
        add_to(total, vector, shared * rates.joules_per_vector_flop)
        add_to(total, forms.weight_bytes, (count if copied else shared) * rates.joules_per_sram_byte)
        for held in (_cached(forms), forms.activation_bytes):
            add_to(total, held, shared * rates.joules_per_sram_byte)

    def dense(self, forms: Sequence[Form]) -> FloatArray:
        """Forms as an array of shape (rows, forms, features so far)."""
        numbers = [[self.features.number(feature) for feature in form] for form in forms]
        found = np.zeros((self.table.size, len(forms), len(self.features.index)))
        for place, (form, mine) in enumerate(zip(forms, numbers, strict=True)):
            for factor, number in zip(form.values(), mine, strict=True):
                found[:, place, number] = factor
        return found


def _work(operator: Operator, forms: DemandForms, style: str) -> tuple[Form, Form]:
    """Matrix and vector FLOPs on dies of a style, as in `operator_cost.work_of`."""
    updates = operator.update_flops_per_token
    if style != "vector" or updates <= 0:
        return forms.matmul_flops, forms.vector_flops
    return {}, {Feature("rows"): updates}


def _cached(forms: DemandForms) -> Form:
    return added(forms.kv_read_bytes, forms.kv_write_bytes, scaled(forms.state_bytes, 2.0))


def on_features(forms: FloatArray, features: int) -> FloatArray:
    """Widen forms of shape (rows, forms, features so far) to all features."""
    if forms.shape[2] == features:
        return forms
    found = np.zeros((*forms.shape[:2], features))
    found[:, :, : forms.shape[2]] = forms
    return found
