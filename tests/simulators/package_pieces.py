"""Three small packages with operators of round numbers, mapped by hand."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hydra_dse.design.nouns import Design, Placement
from hydra_dse.hardware.calibration import ACCESS_KINDS, Calibration, CalibrationSet
from hydra_dse.hardware.components import Chiplet, DieGroup, MemoryGroup, MemoryStack, Package
from hydra_dse.hardware.links import LinkClass
from hydra_dse.mapping import ExecutionGroup, MappedDesign, MappedOperator, MappedPool, MemoryPlan, MemorySite, Transfer
from hydra_dse.model.operators import Operator, OperatorClass
from hydra_dse.model.precision import Precision
from hydra_dse.policy import Policy
from hydra_dse.routing import build_topology
from simulators.package import PlacedHardware

PERFECT = CalibrationSet(
    Calibration(
        "perfect",
        compute=dict.fromkeys(OperatorClass, 1.0),
        memory=dict.fromkeys(ACCESS_KINDS, 1.0),
        operator_overhead_s=0.0,
        iteration_overhead_s=0.0,
    )
)

BF16 = Precision()

DIE = Chiplet(
    name="die",
    style="mac-array",
    technology_nm=7,
    area_mm2=100.0,
    matmul_flops_per_s=1e6,
    vector_flops_per_s=1e5,
    sram_bytes=1e3,
    sram_bandwidth_bytes_per_s=0.0,
    ports=4,
    link_bandwidth_bytes_per_s=1e4,
    joules_per_flop=1e-3,
    joules_per_vector_flop=2e-3,
)

STACK = MemoryStack(
    name="stack",
    technology="test",
    capacity_bytes=1e6,
    bandwidth_bytes_per_s=2e4,
    joules_per_byte=0.5,
    footprint_mm2=100.0,
)

LINK = LinkClass("wire", 0.25, joules_per_byte=0.125, efficiency=0.5, density_bytes_per_s_per_mm=1e9, reach_mm=100)

# 1,000 weights of 2 bytes and 2,000 FLOPs a token; three instances.
PROJECTION = Operator(
    "projection", OperatorClass.MLP, count=3, weight_copies=3, weight_elements=1000.0, matmul_flops_per_token=2000.0
)
# 8 bytes of KV a token, 16 FLOPs a query-key pair; two instances.
ATTENTION = Operator(
    "attention", OperatorClass.ATTENTION, count=2, kv_elements_per_token=4.0, matmul_flops_per_pair=16.0
)
# 50 elements of fp32 state: 200 bytes a sequence, read and written; 300 element-wise FLOPs a token.
SCAN = Operator("scan", OperatorClass.SSM_SCAN, count=5, state_elements=50.0, vector_flops_per_token=300.0)
# 600 weights, for emitted rows only.
HEAD = Operator(
    "head",
    OperatorClass.LM_HEAD,
    weight_copies=1,
    weight_elements=600.0,
    matmul_flops_per_token=1200.0,
    rows_emitted=True,
)
OPERATORS = (PROJECTION, ATTENTION, SCAN, HEAD)


def package(columns: int, rows: int, dies: Sequence[DieGroup], stacks: int) -> Package:
    return Package(
        "small",
        build_topology("mesh", columns, rows, 10.0 * columns, 10.0 * rows),
        LINK,
        1e4,
        tuple(dies),
        (MemoryGroup("hbm", STACK, stacks),),
    )


def group(dies: Sequence[int], weights: object, caches: object, parallelism: str = "tensor") -> ExecutionGroup:
    return ExecutionGroup(
        die_groups=("D",),
        dies=tuple(dies),
        work_share=np.full(len(dies), 1.0 / len(dies)),
        weight_fetch=np.array(weights, dtype=np.float64),
        cache_fetch=np.array(caches, dtype=np.float64),
        parallelism=parallelism,
    )


def mapped(
    small: Package,
    on: ExecutionGroup,
    transfers: dict[str, tuple[Transfer, ...]] | None = None,
    operators: Sequence[Operator] = OPERATORS,
    resident: float = 0.0,
) -> MappedDesign:
    moves = transfers or {}
    sites = tuple(
        MemorySite(small.die_count + number, f"hbm[{number}]", 1e6, 2e4, 0.5, 2e4, ports=4)
        for number in range(small.stack_count)
    )
    held = tuple(
        MappedOperator(o, 0, 1.0, resident if o.weight_elements else 0.0, moves.get(o.name, ())) for o in operators
    )
    plan = MemoryPlan(np.full(len(sites), 1e6), np.zeros(len(sites)), 1e6, 16.0, 1000.0)
    pools = (MappedPool("serve", (on,), held),)
    return MappedDesign(pools, plan, sites=sites, component_count=small.die_count + small.stack_count)


COLOCATED = Policy(serving="colocated")


def hardware(small: Package, slots: Sequence[int], lowered: MappedDesign, policy: Policy = COLOCATED) -> PlacedHardware:
    design = Design(small, policy, placement=Placement(tuple(slots)))
    return PlacedHardware(design, lowered, PERFECT, BF16)


def one_die(policy: Policy = COLOCATED) -> PlacedHardware:
    """A die beside a stack."""
    small = package(2, 1, [DieGroup("D", DIE, 1)], 1)
    return hardware(small, (0, 1), mapped(small, group((0,), [[1.0]], [[1.0]])), policy)


def three_in_a_row() -> PlacedHardware:
    """Stack, die 0, die 1 in a row: what die 1 fetches passes die 0; the halves of the activations are exchanged."""
    small = package(3, 1, [DieGroup("D", DIE, 2)], 1)
    exchange = Transfer((0, 1), (0, 1), np.array([[0.0, 0.5], [0.5, 0.0]]), 10.0, "gather")
    lowered = mapped(small, group((0, 1), [[0.5, 0.5]], [[0.5, 0.5]]), {"projection": (exchange,)}, resident=0.25)
    return hardware(small, (1, 2, 0), lowered)


def square_of_replicas() -> PlacedHardware:
    """Dies 0 and 1 above stacks 0 and 1: replicas stream all weights from both stacks, caches are aligned."""
    small = package(2, 2, [DieGroup("D", DIE, 2)], 2)
    on = group((0, 1), [[0.5, 0.5], [0.5, 0.5]], [[0.5, 0.0], [0.0, 0.5]], parallelism="replica")
    return hardware(small, (0, 1, 2, 3), mapped(small, on))
