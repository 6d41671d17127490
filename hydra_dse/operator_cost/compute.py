"""Time and energy of a die for its share of an operator.

Matrix and vector units of a die work side by side on different tiles of an operator, so the slower of the two sets
the time; a vector die multiplies on the same lanes, so there the two add up.  Everything that an operator touches
passes the SRAM once, at SRAM bandwidth.

The scan of a state-space layer has two forms: on a matrix die prompt tokens run chunk by chunk as GEMMs (SSD: Dao and
Gu, arXiv 2405.21060) and decoded tokens as vector updates; a vector die runs all of them as updates, which are fewer
FLOPs.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hydra_dse.model.operators import Batch, Demand, Number, Operator, OperatorClass
from hydra_dse.operator_cost.rates import DieRates
from hydra_dse.operator_cost.utilisation import inverse_utilisation


@dataclass(frozen=True, eq=False)
class Work:
    """FLOPs of one operator instance on dies of one style, whole model width."""

    matmul_flops: Number
    vector_flops: Number


@dataclass(frozen=True, eq=False)
class DieShare:
    """What part of an operator a die does.

    Attributes:
        share: of the work, in [0, 1].
        imbalance: work of the most loaded die over its fair share (`MappedOperator.imbalance`).
        parallelism: `"tensor"` (share of the width), `"replica"` (share of the rows) or `"expert"` (some experts whole:
            share of the expert rows).
        weights: share of the weights that the die reads, where that is not the rule of its parallelism.
    """

    share: Number
    imbalance: Number = 1.0
    parallelism: str = "tensor"
    weights: Number | None = None


def work_of(operator: Operator, demand: Demand, batch: Batch, style: str) -> Work:
    """Return the FLOPs of an instance on dies of a style: a scan runs in its recurrent form on vector dies."""
    updates = operator.update_flops_per_token
    if style != "vector" or updates <= 0:
        return Work(demand.matmul_flops, demand.vector_flops)
    return Work(0.0, batch.tokens * updates)


def compute_time_s(operator: Operator, demand: Demand, batch: Batch, rates: DieRates, part: DieShare) -> Number:
    """Return the time in which a die computes its share of one instance, memory and network aside."""
    work = work_of(operator, demand, batch, rates.style)
    load = part.share * part.imbalance
    efficiency = rates.compute[operator.kind]
    with np.errstate(divide="ignore", invalid="ignore"):
        matmul = work.matmul_flops * (load / (rates.matmul_flops_per_s * efficiency))
        vector = work.vector_flops * (load / (rates.vector_flops_per_s * efficiency))
    if operator.reduce_width > 0 and operator.output_width > 0 and operator.kind is not OperatorClass.EMBEDDING:
        shape = _gemm_shape(operator, demand, rates, part)
        matmul = matmul * inverse_utilisation(rates, *shape, varying=part.parallelism == "expert")
        if rates.half_width > 0:
            matmul = matmul * (1.0 + rates.half_width / np.maximum(np.minimum(shape[1], shape[2]), 1.0))
    busy = matmul + vector if rates.style == "vector" else np.maximum(matmul, vector)
    return np.maximum(busy, sram_bytes(demand, part) / rates.sram_bytes_per_s)


def sram_bytes(demand: Demand, part: DieShare) -> Number:
    """Bytes that pass the SRAM of a die for its share of one instance."""
    cached = demand.kv_read_bytes + demand.kv_write_bytes + demand.state_read_bytes + demand.state_write_bytes
    if part.weights is not None:
        weights = demand.weight_bytes * part.weights
    else:
        weights = demand.weight_bytes if part.parallelism == "replica" else demand.weight_bytes * part.share
    return weights + (cached + demand.activation_bytes) * part.share


def die_energy_j(operator: Operator, demand: Demand, batch: Batch, rates: DieRates, part: DieShare) -> Number:
    """Return the dynamic energy of a die for its share of one instance, memory and network aside."""
    compute, sram = die_energies_j(operator, demand, batch, rates, part)
    return compute + sram


def die_energies_j(
    operator: Operator, demand: Demand, batch: Batch, rates: DieRates, part: DieShare
) -> tuple[Number, Number]:
    """Return the same by what it is spent on: arithmetic and SRAM."""
    work = work_of(operator, demand, batch, rates.style)
    flops = work.matmul_flops * rates.joules_per_flop + work.vector_flops * rates.joules_per_vector_flop
    return flops * part.share, sram_bytes(demand, part) * rates.joules_per_sram_byte


def activity(demand: Demand) -> Number:
    """Share of iterations in which an operator runs at all: 1, or its expected rows where those are fewer."""
    return np.minimum(demand.rows, 1.0)


def _gemm_shape(operator: Operator, demand: Demand, rates: DieRates, part: DieShare) -> tuple[Number, Number, Number]:
    """Rows, inner and outer width of the GEMM on a die; of one expert in a mixture."""
    rows, inner, outer = demand.rows, float(operator.reduce_width), float(operator.output_width)
    if operator.routing is not None and operator.kind is OperatorClass.EXPERTS:
        touched = demand.weight_bytes / (operator.weight_elements * rates.weight_bytes) * operator.routing.experts
        if part.parallelism == "expert":
            mine = touched * (part.share if part.weights is None else part.weights)
            return rows * operator.routing.top_k * part.share / np.maximum(mine, 1.0), inner, outer
        rows = rows * operator.routing.top_k / np.maximum(touched, 1.0)
    if part.parallelism == "replica":
        return rows * part.share, inner, outer
    if operator.reduce_elements_per_token > 0 and operator.gather_elements_per_token <= 0:
        return rows, inner * part.share, outer
    return rows, inner, outer * part.share
