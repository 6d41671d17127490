"""Designs for profile tests: random packages on a mesh, placed at random, under every mapping choice."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from hydra_dse.design.nouns import Design, MappingChoice, Placement
from hydra_dse.hardware.components import DieGroup, MemoryGroup
from hydra_dse.model.operators import Batch
from hydra_dse.policy import Policy
from hydra_dse.rng import derive
from tests.mapping.pieces import chiplet, package, stack

STYLES = ("systolic", "mac-array", "vector")


def random_design(seed: int, serving: str) -> Design:
    """A package of up to 20 tiles with four die groups; leaves get the corners and edges a route needs."""
    rng = derive(seed, "profile", serving)
    groups = []
    for name, family, phase in (
        ("Ap", "attention", "prefill"),
        ("Mp", "ssm", "prefill"),
        ("Ad", "attention", "decode"),
        ("Md", "ssm", "decode"),
    ):
        die = chiplet(
            name=name,
            style=STYLES[int(rng.integers(3))],
            matmul_flops_per_s=float(rng.uniform(5e12, 40e12)),
            vector_flops_per_s=float(rng.uniform(1e12, 5e12)),
            sram_bandwidth_bytes_per_s=float(rng.uniform(1e12, 4e12)),
            sram_bytes=float(rng.uniform(20e6, 60e6)),
            array_rows=int(rng.choice([8, 32])),
            array_columns=int(rng.choice([8, 16])),
            cores=int(rng.integers(4, 40)),
            shape_efficiency=((1.0, 0.1), (64.0, 0.9)) if rng.random() < 0.3 else (),
        )
        groups.append(DieGroup(name, die, int(rng.integers(1, 4)), (family,), phase))
    stacks = int(rng.integers(2, 5))
    on = package(tuple(groups), (MemoryGroup("H", stack(), stacks),), 5, 4, float(rng.choice([256e9, 512e9])))
    # Stacks on the outer columns, dies in the three columns between, which stay connected.
    outer = [slot for slot in range(20) if slot % 5 in (0, 4)]
    inner = [slot for slot in range(20) if slot % 5 not in (0, 4)]
    slots = (*_some(rng, inner, on.die_count), *_some(rng, outer, stacks))
    choice = MappingChoice(
        parallelism=str(rng.choice(["tensor", "replica"])),
        homes=str(rng.choice(["aligned", "interleaved"])),
        sram_weight_share=float(rng.uniform(0, 0.9)),
    )
    policy = Policy(serving=serving, batches_in_flight=int(rng.integers(1, 4)))
    return Design(package=on, policy=policy, mapping=choice, placement=Placement(slots), name=f"random {seed}")


def _some(rng: np.random.Generator, slots: list[int], count: int) -> list[int]:
    return [int(slot) for slot in rng.permutation(slots)[:count]]


def full_die_grid(design: Design) -> Design:
    """The same package with every inner tile taken, so that all components are joined."""
    groups = list(design.package.dies)
    missing = 12 - design.package.die_count
    groups[-1] = replace(groups[-1], count=groups[-1].count + missing)
    rng = derive(0, "grid", design.name)
    inner = [slot for slot in range(20) if slot % 5 not in (0, 4)]
    outer = [slot for slot in range(20) if slot % 5 in (0, 4)]
    slots = (*_some(rng, inner, 12), *_some(rng, outer, design.package.stack_count))
    return replace(design, package=replace(design.package, dies=tuple(groups)), placement=Placement(slots))


def batches(designs: int, width: int, seed: int = 0) -> Batch:
    """Mixed iterations of shape (designs, width)."""
    rng = derive(seed, "batches")
    shape = (designs, width)
    decode = np.floor(rng.uniform(0, 65, shape))
    prompts = np.floor(rng.uniform(0, 4, shape))
    tokens = prompts * np.floor(rng.uniform(1, 700, shape))
    return Batch(
        prefill_tokens=tokens,
        prefill_sequences=prompts,
        prefill_pairs=tokens * 300.0,
        prefill_context_tokens=tokens * 1.5,
        decode_sequences=decode,
        decode_context_tokens=decode * rng.uniform(10, 4000, shape),
        emitted_tokens=decode + 0.3 * prompts,
    )


def one(batch: Batch, row: int, column: int) -> Batch:
    """One entry of a batch as plain numbers."""

    def pick(value: object) -> float:
        return float(np.asarray(value)[row, column])

    return Batch(
        pick(batch.prefill_tokens),
        pick(batch.prefill_sequences),
        pick(batch.prefill_pairs),
        pick(batch.prefill_context_tokens),
        pick(batch.decode_sequences),
        pick(batch.decode_context_tokens),
        pick(batch.emitted_tokens),
    )
