"""A decoder stack on one die: time, bytes and cores of each operator of a forward pass, by the cost model."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from hydra_dse.bench.flops import ffn_width, kv_width
from hydra_dse.bench.record import ModelShape
from hydra_dse.bench.roofline import format_of
from hydra_dse.hardware.calibration import Calibration, CalibrationSet
from hydra_dse.hardware.components import Chiplet
from hydra_dse.hardware.machine_fit import MachineFit
from hydra_dse.mapping import speed_of
from hydra_dse.model.blocks import Attention, Block, Mlp, Model
from hydra_dse.model.lowering import operators_of
from hydra_dse.model.operators import Batch, Demand, Operator, OperatorClass
from hydra_dse.model.precision import Precision
from hydra_dse.operator_cost import DieRates, DieShare, compute_time_s, die_energy_j, die_rates

HEAD_DIM = 64
"""Elements of a head where the shape does not say how many heads there are."""

_MIXER = (OperatorClass.NORM, OperatorClass.ATTENTION_PROJECTION, OperatorClass.ATTENTION)


@dataclass(frozen=True)
class Cost:
    """One instance of an operator in one forward pass.

    Attributes:
        part: `"mixer"`, `"feed-forward"`, `"embedding"` or `"head"`.
        count: instances in the stack.
        time_s: on the whole die (or its share of a tensor split), memory off the die aside.
        weight_bytes, activation_bytes, cache_bytes: read and written.
        units: cores that the operator's tiles can occupy at most.
        energy_j: dynamic, on the die.
    """

    name: str
    part: str
    count: int
    time_s: float
    weight_bytes: float
    activation_bytes: float
    cache_bytes: float
    units: int
    energy_j: float


@dataclass(frozen=True)
class Pass:
    """All operators of a forward pass, and what the die adds to them.

    Attributes:
        cores: that it may use.
        launches: fixed time of one launch by part; None = the calibration's for every operator or section.
        fit: of the machine, where there is one.
    """

    costs: tuple[Cost, ...]
    calibration: Calibration
    cores: int
    launches: Mapping[str, float] | None = None
    fit: MachineFit | None = None

    def launch_s(self, part: str) -> float:
        """Time to launch an operator or a section of a part."""
        return self.calibration.operator_overhead_s if self.launches is None else self.launches[part]

    def of(self, part: str) -> list[Cost]:
        """Operators of a part, in order."""
        return [cost for cost in self.costs if cost.part == part]

    def time_s(self, part: str) -> float:
        """Time of one instance of a part on the whole die, its operators in turn."""
        return math.fsum(cost.time_s for cost in self.of(part))


PARTS = ("embedding", "mixer", "feed-forward", "head")


def model_of(shape: ModelShape) -> Model:
    """Return the decoder stack of a shape: equal blocks of attention and a feed-forward part."""
    hidden = shape.hidden or 1
    heads = shape.heads or max(hidden // HEAD_DIM, 1)
    head_dim = max(hidden // heads, 1)
    kv_heads = max(kv_width(shape) // head_dim, 1)
    block = Block(
        "block", (Attention(heads, kv_heads, head_dim),), Mlp(ffn_width(shape), gated=shape.matrices == 3), norms=2
    )
    return Model(shape.name or "stack", "stack", hidden, shape.vocabulary or 0, (block,) * (shape.layers or 0), True)


def precision_of(name: str) -> Precision:
    """Return the formats that a configuration runs its operators in."""
    number = format_of(name)
    return Precision(number, number, number, "fp32", number)


def batch_of(batch: float, sequence: float, phase: str, causal: bool) -> Batch:
    """Return an iteration: whole prompts, or one token of each sequence at a context length."""
    if phase == "decode":
        return Batch(decode_sequences=batch, decode_context_tokens=batch * sequence, emitted_tokens=batch)
    pairs = batch * sequence**2 * (0.5 if causal else 1.0)
    emitted = batch * sequence if phase == "training" else batch
    return Batch(batch * sequence, batch, pairs, batch * sequence, emitted_tokens=emitted)


def supports(chiplet: Chiplet, precision: str) -> bool:
    """Whether a die multiplies in a configuration's format."""
    return speed_of(chiplet, format_of(precision)) is not None


def forward_pass(
    chiplet: Chiplet,
    calibrations: CalibrationSet,
    shape: ModelShape,
    precision: str,
    batch: Batch,
    split: int = 1,
) -> Pass:
    """Return the operators of a forward pass on one of `split` dies that share every operator."""
    formats = precision_of(precision)
    rates = die_rates(chiplet, calibrations, formats)
    share = DieShare(1.0 / split)
    costs = []
    for operator in operators_of(model_of(shape)):
        demand = operator.demand(batch, formats)
        if float(demand.matmul_flops) + float(demand.vector_flops) + float(demand.weight_bytes) > 0:
            costs.append(_cost(operator, demand, batch, rates, share, chiplet, split))
    return Pass(tuple(costs), calibrations.of(chiplet.style), max(chiplet.cores, 1))


def _cost(
    operator: Operator, demand: Demand, batch: Batch, rates: DieRates, share: DieShare, chiplet: Chiplet, split: int
) -> Cost:
    caches = float(demand.kv_read_bytes) + float(demand.kv_write_bytes)
    return Cost(
        operator.name,
        _part(operator),
        operator.count,
        float(compute_time_s(operator, demand, batch, rates, share)),
        float(demand.weight_bytes) / split,
        float(demand.activation_bytes) / split,
        caches / split if operator.kind is OperatorClass.ATTENTION else 0.0,
        _units(operator, float(demand.rows), chiplet, split),
        float(die_energy_j(operator, demand, batch, rates, share)),
    )


def _part(operator: Operator) -> str:
    if operator.kind is OperatorClass.EMBEDDING:
        return "embedding"
    if operator.kind is OperatorClass.LM_HEAD or operator.name.startswith("final"):
        return "head"
    return "mixer" if operator.kind in _MIXER else "feed-forward"


def _units(operator: Operator, rows: float, chiplet: Chiplet, split: int) -> int:
    """Cores that tiles of the result can occupy; all of them where there are no tiles."""
    cores = max(chiplet.cores, 1)
    if operator.output_width <= 0 or operator.reduce_width <= 0:
        return cores
    tiles = math.ceil(rows / chiplet.array_rows) * math.ceil(operator.output_width / split / chiplet.array_columns)
    return max(min(cores, tiles), 1)


def allocate(costs: list[float], limits: list[int], cores: int) -> list[int] | None:
    """Share cores out in proportion to work, at least one each and at most each limit; None where cores are too few.

    Largest remainders; what limits leave over goes to those below theirs.
    """
    count = len(costs)
    if count > cores:
        return None
    total = math.fsum(costs) or 1.0
    spare = cores - count
    shares = [spare * cost / total for cost in costs]
    given = [min(1 + math.floor(share), limit) for share, limit in zip(shares, limits, strict=True)]
    order = sorted(range(count), key=lambda index: (math.floor(shares[index]) - shares[index], index))
    left = cores - sum(given)
    while left > 0:
        open_ones = [index for index in order if given[index] < limits[index]]
        if not open_ones:
            break
        more = max(left // len(open_ones), 1)
        for index in open_ones[:left]:
            given[index] += min(more, limits[index] - given[index])
        left = cores - sum(given)
    return given
