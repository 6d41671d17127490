"""The byte ledger of an iteration: what each operator moves, from where to where.

Bytes of one instance: weights that are not resident flow from their sites to the dies (every copy of them), KV and
state are read by, and written back by, the die that holds their part; activations move between dies.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hydra_dse.design.nouns import Design
from hydra_dse.mapping.lower import map_operands
from hydra_dse.mapping.nouns import ExecutionGroup, MappedDesign, MappedOperator, MappedPool, Transfer
from hydra_dse.mapping.operands import operands_of, precision_of
from hydra_dse.mapping.reference_request import PROMPT, STEP, STEPS_PER_REQUEST, reference_demands
from hydra_dse.model.blocks import Model
from hydra_dse.model.operators import Batch, Demand, Number, OperatorClass
from hydra_dse.model.precision import Precision

FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class Flows:
    """Bytes of one operator instance in one iteration, before they are spread over sites and dies.

    Attributes:
        weights: streamed per copy (resident weights taken off).
        kv_reads, kv_writes, state_reads, state_writes: between sites and dies.
        transfers: bytes of the operand of each transfer of the operator, in order.
        rows: rows of the operator, which decide the experts that are read.
    """

    weights: Number
    kv_reads: Number
    kv_writes: Number
    state_reads: Number
    state_writes: Number
    transfers: tuple[Number, ...]
    rows: Number = 0.0


@dataclass(frozen=True)
class LedgerRow:
    """One operand of one operator over all its instances, in bytes per iteration by memory site.

    `operand` is `"weights"`, `"kv read"`, `"kv write"`, `"state read"`, `"state write"` or `"activations (gather)"`,
    `"activations (reduce)"`, `"activations (dispatch)"`, `"activations (combine)"`, `"activations (forward)"`,
    `"activations (stage)"` (between dies; no site).  `copies`: how often it is streamed.
    """

    pool: str
    operator: str
    operand: str
    total_bytes: float
    copies: float
    site_bytes: FloatArray


def flows_of(mapped: MappedOperator, demand: Demand, precision: Precision, resident: Number | None = None) -> Flows:
    """Return the bytes that one instance moves for a demand of `mapped.operator`.

    `resident` replaces the resident share of `mapped` (many designs at once).
    """
    resident = mapped.resident_share if resident is None else resident
    return Flows(
        weights=demand.weight_bytes * (1.0 - resident),
        kv_reads=demand.kv_read_bytes,
        kv_writes=demand.kv_write_bytes,
        state_reads=demand.state_read_bytes,
        state_writes=demand.state_write_bytes,
        transfers=tuple(
            demand.rows * transfer.elements_per_token * precision.activation_bytes for transfer in mapped.transfers
        ),
        rows=demand.rows,
    )


def operator_traffic(design: MappedDesign, group: ExecutionGroup, mapped: MappedOperator, flows: Flows) -> FloatArray:
    """Bytes of one instance from component to component, shape (components, components); flows are scalars."""
    matrix = np.zeros((design.component_count, design.component_count))
    at, dies = [site.component for site in design.sites], list(group.dies)
    reads = group.weights_from(float(flows.rows)) * flows.weights
    reads = reads + group.cache_fetch * (flows.kv_reads + flows.state_reads)
    matrix[np.ix_(at, dies)] += reads
    matrix[np.ix_(dies, at)] += group.cache_fetch.T * (flows.kv_writes + flows.state_writes)
    for transfer, amount in zip(mapped.transfers, flows.transfers, strict=True):
        matrix[np.ix_(transfer.sources, transfer.targets)] += transfer.share * amount
    np.fill_diagonal(matrix, 0.0)
    return matrix


def traffic(design: MappedDesign, pool: MappedPool | str, batch: Batch, precision: Precision) -> FloatArray:
    """Bytes of one iteration from component to component, shape (components, components), all instances."""
    pool = design.pool(pool) if isinstance(pool, str) else pool
    demands = [mapped.operator.demand(batch, precision) for mapped in pool.operators]
    total: FloatArray = _traffic_of_parts(design, pool, demands, precision, [0] * len(demands), 1)[0]
    return total


def _traffic_of_parts(
    design: MappedDesign,
    pool: MappedPool,
    demands: Sequence[Demand],
    precision: Precision,
    part_of: Sequence[int],
    parts: int,
) -> FloatArray:
    """Sums of `operator_traffic` over the operators of each part, shape (parts, components, components).

    Amounts are summed first, so that each pattern is spread once.
    """
    held: dict[tuple[int, int], list[float]] = {}  # of a part and a group: weights, cache reads, cache writes
    moved: dict[tuple[int, int], float] = {}
    transfers: dict[tuple[int, int], Transfer] = {}
    total = np.zeros((parts, design.component_count, design.component_count))
    for mapped, demand, part in zip(pool.operators, demands, part_of, strict=True):
        flows, count = flows_of(mapped, demand, precision), mapped.operator.count
        if pool.groups[mapped.group].experts is not None:  # what flows where depends on the rows
            total[part] += count * operator_traffic(design, pool.groups[mapped.group], mapped, flows)
            continue
        amounts = held.setdefault((part, mapped.group), [0.0, 0.0, 0.0])
        amounts[0] += float(count * flows.weights)
        amounts[1] += float(count * (flows.kv_reads + flows.state_reads))
        amounts[2] += float(count * (flows.kv_writes + flows.state_writes))
        for transfer, amount in zip(mapped.transfers, flows.transfers, strict=True):
            key = part, id(transfer.share)  # operators of a group share the array
            transfers[key] = transfer
            moved[key] = moved.get(key, 0.0) + count * float(amount)
    at = np.array([site.component for site in design.sites], dtype=np.int64)
    for (part, number), (weights, reads, writes) in held.items():
        group = pool.groups[number]
        dies = np.array(group.dies)
        total[part, at[:, None], dies] += group.weight_fetch * weights + group.cache_fetch * reads
        total[part, dies[:, None], at] += group.cache_fetch.T * writes
    for key, transfer in transfers.items():
        total[key[0], np.array(transfer.sources)[:, None], np.array(transfer.targets)] += transfer.share * moved[key]
    total[:, range(design.component_count), range(design.component_count)] = 0.0
    return total


def reference_traffic(design: Design, model: Model) -> FloatArray:
    """Bytes per served request from component to component, shape (components, components)."""
    total: FloatArray = reference_parts(design, model).sum(axis=0)
    return total


def reference_parts(design: Design, model: Model) -> FloatArray:
    """Bytes per served request, apart for operators that take turns: the input of placement.

    A request of 1,024 prompt and 256 output tokens, decoded in a batch of 16.  The peaks of dies are rounded and
    nothing is resident, so that the result hardly depends on what link bandwidth displaces on a die.

    Operators that run on the same dies in every pool form one part: within a pool its groups work in turn, pools and
    the stages of a pipeline at once.

    Returns:
        Shape (parts, components, components).
    """
    operands = operands_of(model, precision_of(design, model))
    mapped = map_operands(design, operands, nominal=True)
    known = reference_demands(operands)
    part_of = _parts_in_turn(mapped)
    count = max(part_of.values(), default=0) + 1
    found = []
    for pool, batch, demands in zip((mapped.pools[0], mapped.pools[-1]), (PROMPT, STEP), known, strict=True):
        asked = [
            # Parts of an operator (stages) are not the model's own and not known beforehand.
            demands.get(id(one.operator)) or one.operator.demand(batch, operands.precision)
            for one in pool.operators
        ]
        mine = [part_of[one.operator.kind] for one in pool.operators]
        found.append(_traffic_of_parts(mapped, pool, asked, operands.precision, mine, count))
    return found[0] + found[1] * STEPS_PER_REQUEST


def _parts_in_turn(mapped: MappedDesign) -> dict[OperatorClass, int]:
    """Number of the part of each operator class; classes on the same execution groups of every pool share one."""
    groups: dict[OperatorClass, dict[tuple[int, int], None]] = {}
    for number, pool in enumerate(mapped.pools):
        for one in pool.operators:
            groups.setdefault(one.operator.kind, {})[number, one.group] = None
    numbers: dict[tuple[tuple[int, int], ...], int] = {}
    return {kind: numbers.setdefault(tuple(used), len(numbers)) for kind, used in groups.items()}


def ledger(design: MappedDesign, pool: MappedPool | str, batch: Batch, precision: Precision) -> list[LedgerRow]:
    """Return the ledger of one iteration: a row per operator and operand that moves."""
    pool = design.pool(pool) if isinstance(pool, str) else pool
    rows: list[LedgerRow] = []
    for mapped in pool.operators:
        flows = flows_of(mapped, mapped.operator.demand(batch, precision), precision)
        rows += _operand_rows(pool, mapped, flows, len(design.sites))
    return [row for row in rows if row.total_bytes > 0]


def _operand_rows(pool: MappedPool, mapped: MappedOperator, flows: Flows, sites: int) -> list[LedgerRow]:
    group, count, name = pool.groups[mapped.group], mapped.operator.count, mapped.operator.name
    cached = {
        "kv read": flows.kv_reads,
        "kv write": flows.kv_writes,
        "state read": flows.state_reads,
        "state write": flows.state_writes,
    }
    fetched = group.weights_from(float(flows.rows)).sum(axis=1)
    weights = float(flows.weights) * count * fetched
    rows = [LedgerRow(pool.name, name, "weights", float(weights.sum()), float(fetched.sum()), weights)]
    for operand, amount in cached.items():
        part = float(amount) * count * group.cache_fetch.sum(axis=1)
        rows.append(LedgerRow(pool.name, name, operand, float(part.sum()), 1.0, part))
    for transfer, amount in zip(mapped.transfers, flows.transfers, strict=True):
        copies = float(transfer.share.sum())
        total = float(amount) * count * copies
        rows.append(LedgerRow(pool.name, name, f"activations ({transfer.kind})", total, copies, np.zeros(sites)))
    return rows
