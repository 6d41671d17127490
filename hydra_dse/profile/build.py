"""Build the ServiceProfile of placed designs."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from hydra_dse.design.nouns import Design
from hydra_dse.errors import InputError
from hydra_dse.hardware.calibration import CalibrationSet
from hydra_dse.mapping import operands_of, pool_names, pools_on_packages_of_their_own
from hydra_dse.model.blocks import Model
from hydra_dse.policy import Emission, Policy
from hydra_dse.profile.hardware import Hardware, HardwareTable
from hydra_dse.profile.members import members_of
from hydra_dse.profile.nouns import HandoffLoad, ServiceProfile
from hydra_dse.profile.pools import ProfiledContention, ProfiledPool
from hydra_dse.profile.roles import with_roles

FloatArray = NDArray[np.float64]


def build_profile(
    designs: Sequence[Design], model: Model, calibration: CalibrationSet, *, vectorised: bool = True
) -> ServiceProfile:
    """Profile placed designs that share serving, batching and scheduling policy and task map.

    Designs that cannot serve the model keep their place, with violations and NaN for every time.

    Args:
        designs: placed.
        model: that they serve.
        calibration: of the dies.
        vectorised: lower designs of one recipe together; False = one by one, the readable reference (same results).

    Raises:
        InputError: no designs, or designs of different policies.
    """
    policy = _common_policy(designs)
    table = HardwareTable(model, calibration, vectorised)
    index = np.array(table.index(designs), dtype=np.int64)
    names = pool_names(designs[0])
    in_flight = _of([float(design.policy.batches_in_flight) for design in designs])
    pools = {name: ProfiledPool(members_of(table, index, at), in_flight) for at, name in enumerate(names)}
    contention = ProfiledContention(pools[names[0]], pools[names[1]]) if len(names) == 2 else None

    def per_design(value: Callable[[Hardware], float]) -> FloatArray:
        return np.array([value(entry) for entry in table.entries], dtype=np.float64)[index]

    operands = [operands_of(model, entry.precision) for entry in table.entries]
    free = 1.0 - _of([design.policy.memory_watermark for design in designs])
    handoff = HandoffLoad(
        site_s=per_design(lambda entry: entry.handoff[0]),
        link_s=per_design(lambda entry: entry.handoff[1]),
        joules=per_design(lambda entry: entry.handoff[2]),
        latency_s=per_design(lambda entry: entry.handoff[3]),
        between=np.array([pools_on_packages_of_their_own(design) for design in designs]),
    )
    moved = np.maximum(handoff.site_s, handoff.link_s)
    profile = ServiceProfile(
        serving=policy.serving,
        batching=policy.batching,
        scheduling=policy.scheduling,
        pools=pools,
        contention=contention,
        max_batch=_of([float(design.policy.max_batch) for design in designs]),
        token_budget=_of([float(design.policy.token_budget) for design in designs]),
        cache_bytes=per_design(lambda entry: entry.cache_bytes) * free,
        kv_bytes_per_token=_of([entry.kv_bytes_per_token for entry in operands])[index],
        state_bytes_per_sequence=_of([entry.state_bytes_per_sequence for entry in operands])[index],
        block_tokens=_of([float(design.policy.block_tokens) for design in designs]),
        # Where both pools read the same copy of every cache, a request is handed over by pointer.
        handoff_s_per_token=moved * _of([entry.kv_bytes_per_token for entry in operands])[index],
        handoff_s_per_sequence=moved * _of([entry.state_bytes_per_sequence for entry in operands])[index],
        static_power_w=per_design(lambda entry: entry.static_power_w),
        area_mm2=per_design(lambda entry: entry.area_mm2),
        interposer_mm2=per_design(lambda entry: entry.interposer_mm2),
        max_waiting=_rooms(designs),
        violations=tuple(table.entries[entry].violations for entry in index),
        task_map=policy.task_map,
        emission=policy.emission,
        handoff=handoff if moved.any() else None,
        engines=in_flight if (in_flight > 1.0).any() else None,
        row_tiles={name: pool.row_tile() for name, pool in pools.items()},
    )
    return with_roles(profile, designs, model, calibration) if policy.task_map == "elastic" else profile


def kind_of(policy: Policy) -> tuple[str, str, str, str, Emission]:
    """What all designs of a profile share."""
    return policy.serving, policy.batching, policy.scheduling, policy.task_map, policy.emission


def _common_policy(designs: Sequence[Design]) -> Policy:
    if not designs:
        raise InputError("a profile needs at least one design")
    first = designs[0].policy
    for design in designs:
        other = design.policy
        if kind_of(other) != kind_of(first):
            raise InputError(
                "designs of one profile share serving, batching and scheduling policy, task map and tokens per step"
            )
    return first


def _rooms(designs: Sequence[Design]) -> FloatArray | None:
    """Requests that may wait; None where no design limits them."""
    limits = [design.policy.max_waiting for design in designs]
    return None if not any(limits) else _of([np.inf if limit is None else float(limit) for limit in limits])


def _of(values: Sequence[float]) -> FloatArray:
    return np.array(values, dtype=np.float64)
