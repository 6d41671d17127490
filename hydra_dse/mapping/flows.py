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
from hydra_dse.model.operators import Batch, Demand, Number
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
    return _total_traffic(design, pool, demands, precision)


def _total_traffic(
    design: MappedDesign, pool: MappedPool, demands: Sequence[Demand], precision: Precision
) -> FloatArray:
    """The sum of `operator_traffic` over operators: amounts first, so that each pattern is spread once."""
    held = np.zeros((len(pool.groups), 3))  # weights, cache reads, cache writes
    moved: dict[int, float] = {}
    transfers: dict[int, Transfer] = {}
    total = np.zeros((design.component_count, design.component_count))
    for mapped, demand in zip(pool.operators, demands, strict=True):
        flows, count = flows_of(mapped, demand, precision), mapped.operator.count
        if pool.groups[mapped.group].experts is not None:  # what flows where depends on the rows
            total += count * operator_traffic(design, pool.groups[mapped.group], mapped, flows)
            continue
        held[mapped.group] += (
            count * flows.weights,
            count * (flows.kv_reads + flows.state_reads),
            count * (flows.kv_writes + flows.state_writes),
        )
        for transfer, amount in zip(mapped.transfers, flows.transfers, strict=True):
            key = id(transfer.share)  # operators of a group share the array
            transfers[key] = transfer
            moved[key] = moved.get(key, 0.0) + count * float(amount)
    at = np.array([site.component for site in design.sites], dtype=np.int64)
    for group, (weights, reads, writes) in zip(pool.groups, held.tolist(), strict=True):
        dies = np.array(group.dies)
        total[at[:, None], dies] += group.weight_fetch * weights + group.cache_fetch * reads
        total[dies[:, None], at] += group.cache_fetch.T * writes
    for key, transfer in transfers.items():
        total[np.array(transfer.sources)[:, None], np.array(transfer.targets)] += transfer.share * moved[key]
    np.fill_diagonal(total, 0.0)
    return total


def reference_traffic(design: Design, model: Model) -> FloatArray:
    """Bytes per served request from component to component, the input of placement.

    A request of 1,024 prompt and 256 output tokens, decoded in a batch of 16.  Every die of a group counts alike and
    nothing is resident, so that the result does not depend on what link bandwidth displaces on a die.
    """
    operands = operands_of(model, precision_of(design, model))
    mapped = map_operands(design, operands, nominal=True)
    known = reference_demands(operands)
    parts = []
    for pool, batch, demands in zip((mapped.pools[0], mapped.pools[-1]), (PROMPT, STEP), known, strict=True):
        asked = [
            # Parts of an operator (stages) are not the model's own and not known beforehand.
            demands.get(id(one.operator)) or one.operator.demand(batch, operands.precision)
            for one in pool.operators
        ]
        parts.append(_total_traffic(mapped, pool, asked, operands.precision))
    return parts[0] + parts[1] * STEPS_PER_REQUEST


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
