"""Precision of each operand as part of a search: what it changes in bytes, rate, area and energy."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from numpy.typing import NDArray

from hydra_dse.config import load_calibration, load_model, load_space
from hydra_dse.design.nouns import Design
from hydra_dse.design.space import Value
from hydra_dse.errors import InputError
from hydra_dse.hardware.components import Chiplet
from hydra_dse.mapping import operands_of
from hydra_dse.model.operators import Batch
from hydra_dse.placement import place_design
from hydra_dse.profile import build_profile
from hydra_dse.profile.pools import ProfiledPool

MODEL = load_model("nemotron-h-8b")
FORMATS = {"w": ["bf16", "fp8", "int4"], "a": ["bf16", "fp8"], "kv": ["bf16", "fp8"], "s": ["fp32", "bf16"]}
SPACE = load_space(
    "small-9",
    [
        *(f"parameters.{name}={{choices: [{', '.join(found)}]}}" for name, found in FORMATS.items()),
        "parameters.fast={choices: [none, fp8]}",
        "precision={weights: $w, activations: $a, kv: $kv, state: $s}",
        *(f"dies.{name}.fast_format=$fast" for name in ("Ap", "Ad", "Mp", "Md")),
    ],
)
PLAIN: dict[str, Value] = {"w": "bf16", "a": "bf16", "kv": "bf16", "s": "fp32", "fast": "none"}


def designed(**changes: Value) -> Design:
    wanted = {
        **PLAIN,
        "hbm": 4,
        "Ap": 1,
        "Ad": 1,
        "Mp": 1,
        "link_gb_per_s": 256,
        "max_batch": 8,
        **changes,
    }
    point = SPACE.complete(wanted)
    assert point is not None
    return place_design(SPACE.build(point), MODEL, 0)[0]


def pools(design: Design) -> dict[str, ProfiledPool]:
    found = build_profile([design], MODEL, load_calibration()).pools
    return {name: pool for name, pool in found.items() if isinstance(pool, ProfiledPool)}


def first_die(design: Design) -> Chiplet:
    return design.package.dies[0].chiplet


DECODE = Batch(0.0, 0.0, 0.0, 0.0, 8.0, 8 * 2000.0, 8.0)
PREFILL = Batch(1024.0, 1.0, 1024 * 1025 / 2, 0.0, 0.0, 0.0, 1.0)


def test_every_combination_of_formats_is_a_design_of_its_own() -> None:
    designs = [designed(w=w, kv=kv, s=s) for w in FORMATS["w"] for kv in FORMATS["kv"] for s in FORMATS["s"]]
    assert len({design.precision for design in designs}) == len({design.identity for design in designs}) == 12


@pytest.mark.parametrize(
    ("changes", "of", "ratio"),
    [
        ({"w": "fp8"}, lambda found: found.weight_bytes, 0.5),
        # Four bits and an 8-bit scale for 32 of them, against sixteen.
        ({"w": "int4"}, lambda found: found.weight_bytes, (4 + 8 / 32) / 16),
        ({"kv": "fp8"}, lambda found: found.kv_bytes_per_token, 0.5),
    ],
)
def test_formats_change_stored_bytes(changes: dict[str, Value], of: Callable[[object], float], ratio: float) -> None:
    plain, changed = (operands_of(MODEL, designed(**c).precision) for c in ({}, changes))
    assert of(changed) == pytest.approx(ratio * of(plain))


def test_a_narrower_state_halves_all_of_a_sequence_but_its_convolution_windows() -> None:
    full, half = (operands_of(MODEL, designed(s=s).precision).state_bytes_per_sequence for s in ("fp32", "bf16"))
    assert 0.5 < half / full < 0.52


@pytest.mark.parametrize("changes", [{"w": "fp8"}, {"kv": "fp8"}, {"s": "bf16"}])
def test_narrower_operands_move_fewer_bytes_in_less_time_for_less_energy(changes: dict[str, Value]) -> None:
    plain, changed = (pools(designed(**c))["decode"] for c in ({}, changes))

    def memory_j(pool: ProfiledPool) -> NDArray[object]:
        return pool.spent(DECODE).memory_j

    assert changed.time_s(DECODE) < plain.time_s(DECODE)
    assert memory_j(changed) < memory_j(plain)
    assert changed.energy_j(DECODE) < plain.energy_j(DECODE)


def test_fast_multiplication_takes_area_from_cores_and_doubles_the_rate_of_its_format() -> None:
    plain, fast = first_die(designed()), first_die(designed(fast="fp8"))
    assert fast.cores < plain.cores
    assert fast.area_mm2 <= 121.68
    assert dict(fast.format_speed)["fp8"] == 2.0
    # bf16 work pays with the lost cores; fp8 work gains nearly twofold at half the energy per operation.
    per_operand = [pools(designed(fast=speed, a="fp8"))["prefill"] for speed in ("none", "fp8")]
    slow, quick = (float(pool.spent(PREFILL).dies_j["Ap"].sum()) for pool in per_operand)
    assert quick < slow
    assert per_operand[1].time_s(PREFILL) < per_operand[0].time_s(PREFILL)
    assert pools(designed(fast="fp8"))["prefill"].time_s(PREFILL) > pools(designed())["prefill"].time_s(PREFILL)


def test_products_do_not_take_a_fast_format() -> None:
    from hydra_dse.config import load_design

    with pytest.raises(InputError, match=r"dies\.GPU\.fast_format.*composed dies"):
        load_design("h100", ["dies.GPU.fast_format=fp8"])
