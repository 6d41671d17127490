"""How unlike dies share the convolutions and scans of state-space layers.

Dies of one matrix peak can differ tenfold in vector units.  Under `scan_split: speed` each die of a group takes these
operators in proportion to its speed at them in an iteration of the reference request.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from hydra_dse.hardware.components import Chiplet
from hydra_dse.mapping.operands import Operands
from hydra_dse.mapping.reference_request import PROMPT, STEP, reference_demands
from hydra_dse.model.operators import OperatorClass

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]

RECURRENT = frozenset({OperatorClass.SSM_CONV, OperatorClass.SSM_SCAN})

LANES = "vector"
"""Style of dies that multiply on their vector lanes."""


@dataclass(frozen=True, eq=False)
class ScanWork:
    """FLOPs of an iteration in convolutions and scans, an entry for each operator.

    Attributes:
        matmul, vector: on dies with matrix cores, shape (entries,).
        lanes_matmul, lanes_vector: on dies that multiply on their vector lanes, where a scan runs as updates.
    """

    matmul: FloatArray
    vector: FloatArray
    lanes_matmul: FloatArray
    lanes_vector: FloatArray


@lru_cache(maxsize=64)
def scan_work(operands: Operands, pool: str) -> ScanWork:
    """What decides in a pool: the prompt of the reference request, in a decode pool a step of decoding.

    Where a pool does both, the prompt: arithmetic binds its scan, while that of a step waits for state from memory.
    """
    batch, demands = tuple(zip((PROMPT, STEP), reference_demands(operands), strict=True))[pool == "decode"]
    rows: list[tuple[float, ...]] = []
    for operator in operands.operators:
        if operator.kind not in RECURRENT:
            continue
        demand, updates = demands[id(operator)], operator.update_flops_per_token
        both = float(demand.matmul_flops), float(demand.vector_flops)
        lanes = (0.0, float(batch.tokens * updates)) if updates > 0 else both
        rows.append(tuple(operator.count * flops for flops in (*both, *lanes)))
    return ScanWork(*np.array(rows, dtype=np.float64).reshape(-1, 4).T)


def scan_speeds(work: ScanWork, matmul: FloatArray, vector: FloatArray, lanes: BoolArray) -> FloatArray:
    """Iterations per second of dies by their convolutions and scans, of the shape of the peaks.

    Args:
        work: of the pool.
        matmul: peaks of matrix units, FLOP/s.
        vector: peaks of vector units, FLOP/s.
        lanes: whether a die multiplies on its vector lanes.

    Returns:
        Zero for dies that cannot do them; the matrix peak where there is no work.
    """
    if not len(work.matmul):
        return matmul
    with np.errstate(divide="ignore", invalid="ignore"):
        cores = np.maximum(_seconds(work.matmul, matmul), _seconds(work.vector, vector)).sum(axis=-1)
        units = (_seconds(work.lanes_matmul, matmul) + _seconds(work.lanes_vector, vector)).sum(axis=-1)
        return np.asarray(1.0 / np.where(lanes, units, cores))


def _seconds(flops: FloatArray, rate: FloatArray) -> FloatArray:
    """Shape of the rates × (entries,); infinite where a die lacks the units for what there is."""
    return np.where(flops > 0, flops / np.asarray(rate)[..., None], 0.0)


def scan_shares(work: ScanWork, chiplets: Sequence[Chiplet], nominal: Sequence[float] | None = None) -> FloatArray:
    """Each die's share of convolutions and scans, shape (dies,); zeros where no die can do them.

    `nominal` matrix peaks replace those of the dies and keep the ratio of their units, which hardly depends on what
    link bandwidth displaces on a die.
    """
    matmul = np.array([die.matmul_flops_per_s for die in chiplets], dtype=np.float64)
    vector = np.array([die.vector_flops_per_s for die in chiplets], dtype=np.float64)
    if nominal is not None:
        matmul = np.array([peak if peak > 0 else 1.0 for peak in nominal], dtype=np.float64)
        vector = matmul * [vector_ratio(die) for die in chiplets]
    speed = scan_speeds(work, matmul, vector, np.array([die.style == LANES for die in chiplets]))
    total = speed.cumsum()[-1]
    return speed / total if total > 0 else speed


def vector_ratio(chiplet: Chiplet) -> float:
    """Vector peak over matrix peak to four digits, so that equal units of larger and smaller dies compare equal."""
    ratio = chiplet.vector_flops_per_s / chiplet.matmul_flops_per_s if chiplet.matmul_flops_per_s > 0 else 1.0
    return float(f"{ratio:.4g}")
