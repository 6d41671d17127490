"""Small hand-made packages, models and calibrations whose figures can be worked out on paper."""

from __future__ import annotations

from dataclasses import replace

from hydra_dse.config import load_technology
from hydra_dse.design.nouns import Design, MappingChoice, Placement
from hydra_dse.hardware.calibration import ACCESS_KINDS, Calibration, CalibrationSet
from hydra_dse.hardware.components import Chiplet, DieGroup, MemoryGroup, MemoryStack, Package, Slot, Topology
from hydra_dse.hardware.links import LinkClass
from hydra_dse.model.blocks import Attention, Block, Mamba2, Mlp, Model
from hydra_dse.model.operators import Operator, OperatorClass
from hydra_dse.model.precision import Precision
from hydra_dse.policy import Policy

LINK = LinkClass(
    "wire", latency_s=5e-9, joules_per_byte=4e-12, efficiency=1.0, density_bytes_per_s_per_mm=1e15, reach_mm=25
)


# Links may be as fast as a test wants: their wires fit every cut.
_BASE = load_technology()
ANY_WIRES = replace(_BASE, interposer=replace(_BASE.interposer, pitch_um=1e-9))


def chiplet(**changes: object) -> Chiplet:
    """A die of 10 TFLOP/s with 40 MB of SRAM and no tile effects."""
    die = Chiplet(
        name="die",
        style="vector",
        technology_nm=7,
        area_mm2=100,
        matmul_flops_per_s=10e12,
        vector_flops_per_s=1e12,
        sram_bytes=40e6,
        sram_bandwidth_bytes_per_s=1e15,
        ports=4,
        link_bandwidth_bytes_per_s=1e15,
        joules_per_flop=1e-12,
        joules_per_vector_flop=2e-12,
        joules_per_sram_byte=1e-12,
        static_power_w=5.0,
    )
    return replace(die, **changes)


def stack(**changes: object) -> MemoryStack:
    """A stack of 16 GB at 600 GB/s."""
    memory = MemoryStack(
        name="stack",
        technology="HBM3",
        capacity_bytes=16e9,
        bandwidth_bytes_per_s=600e9,
        joules_per_byte=56e-12,
        footprint_mm2=100,
        static_power_w=4.0,
    )
    return replace(memory, **changes)


def mesh(columns: int, rows: int) -> Topology:
    """A mesh of 11 mm tiles."""
    slots = tuple(Slot(11.0 * x, 11.0 * y, 11.0, 11.0) for y in range(rows) for x in range(columns))
    right = [(y * columns + x, y * columns + x + 1) for y in range(rows) for x in range(columns - 1)]
    down = [(y * columns + x, (y + 1) * columns + x) for y in range(rows - 1) for x in range(columns)]
    return Topology("mesh", columns, rows, slots, tuple(sorted(right + down)))


def package(
    dies: tuple[DieGroup, ...],
    memories: tuple[MemoryGroup, ...],
    columns: int = 2,
    rows: int = 2,
    link_bandwidth: float = 512e9,
) -> Package:
    """A package on a mesh whose memory tiles are leaves."""
    return Package("package", mesh(columns, rows), LINK, link_bandwidth, dies, memories, technology=ANY_WIRES)


def design(on: Package, slots: tuple[int, ...] | None = None, **changes: object) -> Design:
    """A colocated design; components fill the slots in order unless told otherwise."""
    count = on.die_count + on.stack_count
    placement = Placement(tuple(range(count)) if slots is None else slots)
    base = Design(package=on, policy=Policy(serving="colocated"), placement=placement, name="hand-made")
    return replace(base, **changes)


def one_of_each() -> Package:
    """One die, one stack."""
    return package((DieGroup("A", chiplet(), 1),), (MemoryGroup("H", stack(), 1),), 2, 1)


def two_of_each() -> Package:
    """Two dies on top of two stacks."""
    return package((DieGroup("A", chiplet(), 2),), (MemoryGroup("H", stack(), 2),), 2, 2)


def two_families() -> Package:
    """A die for attention and one for SSM above two stacks."""
    attention = DieGroup("A", chiplet(name="a"), 1, ("attention",))
    ssm = DieGroup("M", chiplet(name="m"), 1, ("ssm",))
    return package((attention, ssm), (MemoryGroup("H", stack(), 2),), 2, 2)


NO_RESIDENCY = MappingChoice(sram_weight_share=0.0)

ATTENTION = Operator(
    name="attention",
    kind=OperatorClass.ATTENTION,
    count=2,
    matmul_flops_per_pair=100.0,
    kv_elements_per_token=50.0,
)
SCAN = Operator(name="scan", kind=OperatorClass.SSM_SCAN, count=3, vector_flops_per_token=10.0, state_elements=25.0)
UP = Operator(
    name="up",
    kind=OperatorClass.MLP,
    count=4,
    weight_copies=4,
    weight_elements=1000.0,
    matmul_flops_per_token=2000.0,
    gather_elements_per_token=10.0,
)
DOWN = replace(UP, name="down", gather_elements_per_token=0.0, reduce_elements_per_token=10.0)
PRECISION = Precision(weights="bf16", activations="bf16", kv="bf16", state="fp32")


def ideal(**changes: object) -> CalibrationSet:
    """Everything at its peak, no fixed costs."""
    calibration = Calibration(
        name="ideal",
        compute=dict.fromkeys(OperatorClass, 1.0),
        memory=dict.fromkeys(ACCESS_KINDS, 1.0),
        operator_overhead_s=0.0,
        iteration_overhead_s=0.0,
        source="theory",
    )
    return CalibrationSet(replace(calibration, **changes))


def real() -> CalibrationSet:
    """Uneven efficiencies and fixed costs, different for systolic dies."""
    compute = {kind: 0.4 + 0.05 * number for number, kind in enumerate(OperatorClass)}
    memory = {"weights": 0.8, "kv": 0.7, "state": 0.6, "activations": 0.5}
    base = Calibration("real", compute, memory, 2e-6, 1e-4, source="made up for tests")
    slow = {kind: 0.8 * share for kind, share in compute.items()}
    return CalibrationSet(base, {"systolic": Calibration("slow", slow, memory | {"kv": 0.5}, 3e-6, 2e-4)})


def llama3_8b() -> Model:
    """Llama-3-8B from its published configuration."""
    block = Block("attention", (Attention(32, 8, 128),), Mlp(14336), norms=2)
    return Model("llama-3-8b", "llama", 4096, 128256, (block,) * 32, extra_parameters=4096)


def nemotron_h_8b() -> Model:
    """Nemotron-H-8B as modelling notes describe it: 24 Mamba-2, 24 squared-ReLU MLP, 4 attention layers."""
    mamba = Block("mamba", (Mamba2(heads=128, head_dim=64, state=128, groups=8, conv=4),))
    mlp = Block("mlp", (), Mlp(21504, gated=False))
    attention = Block("attention", (Attention(32, 8, 128),))
    blocks = ((mamba, mlp) * 6 + (attention,)) * 4
    return Model("nemotron-h-8b", "nemotron_h", 4096, 131072, blocks, extra_parameters=4096)


def h100() -> Package:
    """The published H100 SXM: 989 TFLOP/s bf16, 80 GB at 3.35 TB/s (NVIDIA H100 data sheet)."""
    gpu = chiplet(
        name="h100",
        style="gpu",
        matmul_flops_per_s=989e12,
        vector_flops_per_s=67e12,
        sram_bytes=50e6,
        memory_bytes=80e9,
        memory_bandwidth_bytes_per_s=3.35e12,
    )
    return package((DieGroup("GPU", gpu, 1),), (), 1, 1)
