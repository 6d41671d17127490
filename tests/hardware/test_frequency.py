"""Clock and voltage of dies as a choice of the design."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hydra_dse.config import load_calibration, load_chiplet, load_design, load_workload
from hydra_dse.errors import InputError
from hydra_dse.estimator.designs import estimate_designs
from hydra_dse.hardware.frequency import at_frequency, voltage
from hydra_dse.physical import package_cost
from hydra_dse.physical.power import peak_power_w

DIE = load_chiplet("hydra-tscs-prefill-22nm")


def test_a_die_at_its_own_clock_is_itself() -> None:
    assert at_frequency(DIE, 1.0) is DIE
    assert voltage(1.0) == 1.0


def test_rates_follow_the_clock_and_energies_the_square_of_the_voltage() -> None:
    slow = at_frequency(DIE, 0.6)
    assert slow.matmul_flops_per_s == pytest.approx(0.6 * DIE.matmul_flops_per_s)
    assert slow.sram_bandwidth_bytes_per_s == pytest.approx(0.6 * DIE.sram_bandwidth_bytes_per_s)
    assert slow.joules_per_flop == pytest.approx(0.8**2 * DIE.joules_per_flop)
    assert slow.static_power_w == pytest.approx(DIE.static_power_w * (0.5 * 0.6 * 0.64 + 0.5 * 0.8))
    for same in ("link_bandwidth_bytes_per_s", "area_mm2", "sram_bytes", "name"):
        assert getattr(slow, same) == getattr(DIE, same)


def test_full_rate_power_goes_with_frequency_times_voltage_squared() -> None:
    package = load_design("hydra-24-nemotron-chat").package

    def dynamic(frequency: float) -> float:
        dies = tuple(replace(group, chiplet=at_frequency(group.chiplet, frequency)) for group in package.dies)
        alone = replace(package, dies=dies, memories=(), topology=replace(package.topology, edges=()))
        return peak_power_w(alone) - sum(group.count * group.chiplet.static_power_w for group in dies)

    assert dynamic(0.5) == pytest.approx(0.5 * 0.75**2 * dynamic(1.0))


def test_a_clock_outside_its_range_is_refused_at_its_place() -> None:
    for wrong in ("0.2", "1.5", "fast"):
        with pytest.raises(InputError, match=r"dies\.Ap\.frequency"):
            load_design("hydra-24-nemotron-chat", [f"dies.Ap.frequency={wrong}"])


def test_slower_dies_save_energy_and_cost_the_same_but_prompts_take_longer() -> None:
    workload = load_workload("hydra-chat", ["arrivals={process: poisson, rate: 2 req/s}"])
    slow = [f"dies.{name}.frequency=0.6" for name in ("Ap", "Ad", "Mp", "Md")]
    designs = [load_design("hydra-24-nemotron-chat", overrides) for overrides in ((), slow)]
    found = estimate_designs(designs, workload, load_calibration(), temperature=True, percentiles=False).metrics
    for smaller in ("power_w", "leakage_w", "peak_temperature_c"):
        assert found[smaller][1] < found[smaller][0]
    assert found["ttft_mean_s"][1] > 1.3 * found["ttft_mean_s"][0]
    assert package_cost(designs[0].package).unit == package_cost(designs[1].package).unit
    assert designs[0].identity != designs[1].identity
