"""Operators whose time depends on more than their number of rows: attention and recurrent state.

Their FLOPs and bytes are affine in eight features of a composition, so the time on each resource is a straight line
and the duration of the operator the highest of them.  Lines that lie below another one everywhere are dropped, which
is exact because features are not negative.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from hydra_dse.errors import InvariantBroken
from hydra_dse.model.operators import Batch, Demand, Operator
from hydra_dse.model.precision import Precision
from hydra_dse.operator_cost import DieShare, sram_bytes, work_of
from simulators.package.coefficients import DiePart, PlacedOperator

FloatArray = NDArray[np.float64]

FEATURES = (
    "prefill_tokens",
    "prefill_sequences",
    "decode_sequences",
    "prefill_pairs",
    "prefill_context_tokens",
    "decode_context_tokens",
)
"""Features of a composition after the constant 1; the last three are those inside the operator's window."""

SHARED = 4
"""Leading coefficients that do not depend on the window: of 1, prefill tokens, prefill and decode sequences."""
CONTEXT = SHARED + 2
"""Position of the coefficient of decode context."""


def depends_on_rows_only(operator: Operator) -> bool:
    """Whether the number of rows alone fixes what an operator asks for."""
    return not (
        operator.kv_elements_per_token
        or operator.state_elements
        or operator.conv_state_elements
        or operator.matmul_flops_per_pair
        or operator.matmul_flops_per_prefill_token
        or operator.vector_flops_per_prefill_token
        or operator.vector_flops_per_decode_token
    )


@dataclass(frozen=True, eq=False)
class Affine:
    """`Demand` fields and FLOPs as affine functions of (1, *FEATURES); arrays of shape (7,)."""

    weights: FloatArray
    kv_reads: FloatArray
    kv_writes: FloatArray
    state_reads: FloatArray
    state_writes: FloatArray
    rows: FloatArray
    kv_accesses: FloatArray


def probe_batches(positions: int) -> Batch:
    """A base point at which every operator runs, and one step along each feature: seven batches.

    `positions`: computed of each decoding sequence.
    """
    points = np.full((1 + len(FEATURES), len(FEATURES)), 4.0)
    points[1:] += np.eye(len(FEATURES))
    tokens, prompts, decoders, pairs, prefill_context, decode_context = points.T
    return Batch(
        prefill_tokens=tokens,
        prefill_sequences=prompts,
        prefill_pairs=pairs,
        prefill_context_tokens=prefill_context,
        decode_sequences=decoders,
        decode_context_tokens=decode_context,
        emitted_tokens=np.full(len(points), 4.0),
        tokens_per_sequence=float(positions),
    )


def affine(values: object) -> FloatArray:
    """Coefficients of (1, *FEATURES) of a quantity given at the probe batches."""
    at = np.broadcast_to(np.asarray(values, dtype=np.float64), (1 + len(FEATURES),))
    slopes = at[1:] - at[0]
    return np.concatenate(([at[0] - 4.0 * slopes.sum()], slopes))


def unwindowed(operator: Operator) -> Operator:
    """The operator without its window: compositions carry contexts that are already cut, sequence by sequence."""
    if operator.reduce_width > 0 and operator.output_width > 0:
        raise InvariantBroken(f"operator {operator.name!r} is a GEMM with state: its time is not affine")
    return replace(operator, window=None)


def affine_demand(operator: Operator, precision: Precision, positions: int) -> Affine:
    """Return the bytes of one instance as affine functions."""
    demand = unwindowed(operator).demand(probe_batches(positions), precision)
    return Affine(
        weights=affine(demand.weight_bytes),
        kv_reads=affine(demand.kv_read_bytes),
        kv_writes=affine(demand.kv_write_bytes),
        state_reads=affine(demand.state_read_bytes),
        state_writes=affine(demand.state_write_bytes),
        rows=affine(demand.rows),
        kv_accesses=affine(demand.kv_accesses),
    )


def time_lines(
    placed: PlacedOperator, precision: Precision, link_bytes_per_s: FloatArray, positions: int
) -> FloatArray:
    """Return the time of one instance on each resource that may bind, shape (lines, 7)."""
    operator = unwindowed(placed.operator)
    batch = probe_batches(positions)
    demand = operator.demand(batch, precision)
    bytes_of = affine_demand(placed.operator, precision, positions)
    lines = [line for part in placed.dies for line in _compute_lines(operator, demand, batch, part)]
    lines += list(_site_lines(placed, bytes_of)) + list(_link_lines(placed, bytes_of) / link_bytes_per_s[:, None])
    return undominated_lines(np.array(lines))


def _compute_lines(operator: Operator, demand: Demand, batch: Batch, part: DiePart) -> list[FloatArray]:
    """Lines of the units of a die: matrix, vector and SRAM (a vector die multiplies on its vector lanes)."""
    rates, share = part.rates, part.share
    work = work_of(operator, demand, batch, rates.style)
    load = share.share * share.imbalance / rates.compute[operator.kind]
    matmul, vector = affine(work.matmul_flops) * load, affine(work.vector_flops) * load
    matmul_s = matmul / rates.matmul_flops_per_s if matmul.any() else matmul
    vector_s = vector / rates.vector_flops_per_s if vector.any() else vector
    sram_s = affine(sram_bytes(demand, DieShare(share.share, share.imbalance, share.parallelism)))
    sram_s = sram_s / rates.sram_bytes_per_s
    return [matmul_s + vector_s, sram_s] if rates.style == "vector" else [matmul_s, vector_s, sram_s]


def _site_lines(placed: PlacedOperator, bytes_of: Affine) -> FloatArray:
    paths = placed.paths
    kv = bytes_of.kv_reads + bytes_of.kv_writes
    if paths.kv_access_bytes > 0.0:
        kv = kv + bytes_of.kv_accesses * paths.kv_access_bytes
    return (
        np.outer(paths.weights.site_s * placed.streamed, bytes_of.weights)
        + np.outer(paths.kv_reads.site_s, kv)
        + np.outer(paths.state_reads.site_s, bytes_of.state_reads + bytes_of.state_writes)
    )


def _link_lines(placed: PlacedOperator, bytes_of: Affine) -> FloatArray:
    """Bytes on each link, shape (links, 7)."""
    paths = placed.paths
    lines = (
        np.outer(paths.weights.link_bytes * placed.streamed, bytes_of.weights)
        + np.outer(paths.kv_reads.link_bytes, bytes_of.kv_reads)
        + np.outer(paths.kv_writes.link_bytes, bytes_of.kv_writes)
        + np.outer(paths.state_reads.link_bytes, bytes_of.state_reads)
        + np.outer(paths.state_writes.link_bytes, bytes_of.state_writes)
    )
    for transfer in placed.activations:
        lines = lines + np.outer(transfer.link_bytes * transfer.bytes_per_row, bytes_of.rows)
    return lines


def undominated_lines(lines: FloatArray) -> FloatArray:
    """Drop lines that are nowhere above another one (of equal ones the first stays)."""
    return np.asarray(lines[undominated(lines)])


def undominated(lines: FloatArray) -> list[int]:
    """Indices of the lines that are somewhere above every other one, the steepest first."""
    kept: list[int] = []
    for number in np.argsort(-lines.sum(axis=1), kind="stable").tolist():
        if not kept or not (lines[number] <= lines[kept]).all(axis=1).any():
            kept.append(number)
    return kept


def upper_hull(lines: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Keep the lines `base + slope·x` that are highest for some `x ≥ 0`, in order of slope."""
    best: dict[float, float] = {}
    for base, slope in lines:
        best[slope] = max(base, best.get(slope, base))
    hull: list[tuple[float, float]] = []
    for slope in sorted(best):
        base = best[slope]
        while hull and base >= hull[-1][0]:
            hull.pop()
        while len(hull) > 1 and _hidden(hull[-2], hull[-1], (base, slope)):
            hull.pop()
        hull.append((base, slope))
    return hull


def _hidden(low: tuple[float, float], middle: tuple[float, float], high: tuple[float, float]) -> bool:
    """Whether `middle` is nowhere above both others: `high` overtakes `low` before `middle` does."""
    return (low[0] - high[0]) * (middle[1] - low[1]) <= (low[0] - middle[0]) * (high[1] - low[1])
