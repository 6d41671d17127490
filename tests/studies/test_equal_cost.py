"""Two packages beside one under a bound on cost: sums over packages, the bound in the search, the volume of making."""

from __future__ import annotations

import pytest

from hydra_dse.config import load_comparison
from hydra_dse.errors import InputError
from hydra_dse.physical import area_mm2, interposer_mm2, package_cost, static_power_w, technology_of
from hydra_dse.studies.comparison.choosing import finalists
from hydra_dse.studies.comparison.designs import Choice, design_of, placed
from hydra_dse.studies.comparison.measuring import Runs, rates_of
from hydra_dse.studies.simulators import find_simulator

TWO = "two packages"
PAIR = {
    "prefill_die": "hydra-tscs-prefill-22nm", "P": 6, "prefill_memory": "hydra-hbm3", "prefill_stacks": 2,
    "decode_die": "hydra-tscs-prefill-22nm", "D": 4, "decode_memory": "hbm3e", "decode_stacks": 2,
    "fabric_gb_per_s": 50, "max_batch": 64, "token_budget": 4096,
}  # fmt: skip


@pytest.mark.slow
def test_two_packages_are_measured_as_the_sum_of_both() -> None:
    few = ["simulation.requests=30", "simulation.tolerance=0.5"]
    comparison = load_comparison("duet-or-one", few, quick=True)
    [load] = comparison.loads
    design, violations = placed(comparison, Choice(TWO, PAIR), load.requests.models[0])
    assert not violations
    runs = Runs(find_simulator(), comparison, load, design, 0)
    rates, parts = rates_of(runs, comparison, load, 3.0), design.package.parts
    assert [part.name for part in parts] == ["prefill", "decode"]
    assert rates["area_mm2"] == pytest.approx(sum(area_mm2(part) for part in parts))
    assert rates["interposer_mm2"] == pytest.approx(sum(interposer_mm2(part) for part in parts))
    assert 0 < rates["max_rate_requests_per_s"] <= rates["saturation_requests_per_s"]
    slow = runs.at(0.01).metrics
    # Nearly idle, it draws hardly more than both packages do at rest.
    at_rest = sum(static_power_w(part) for part in parts)
    assert at_rest < slow["power_w"] < 1.3 * at_rest
    assert slow["unit_cost_usd"] == pytest.approx(package_cost(design.package).unit)
    assert package_cost(design.package).recurring == pytest.approx(sum(package_cost(p).recurring for p in parts))


@pytest.mark.slow
def test_a_search_keeps_to_a_bound_on_cost_that_others_break() -> None:
    def costs(most: float) -> list[float]:
        bound = f"constraints=[{{metric: unit_cost_usd, at_most: {most}}}]"
        comparison = load_comparison("duet-or-one", [bound, "search.finalists=8", "search.trials=24"], quick=True)
        [load] = comparison.loads
        found = finalists(comparison, load, comparison.contender(TWO), ["max_rate"], 1.0)["max_rate"]
        return [package_cost(design_of(comparison, choice).package).unit for choice, _ in found]

    free = costs(1e6)
    bound = sorted(free)[len(free) // 2]
    bounded = costs(bound)
    assert bounded and max(bounded) <= bound < max(free)


def test_in_a_larger_volume_all_packages_share_design_and_masks_among_more() -> None:
    comparisons = [load_comparison("duet-or-one", [f"volume={count}"]) for count in (100_000, 1_000_000)]
    plain, large = (design_of(comparison, Choice(TWO, PAIR)).package for comparison in comparisons)
    as_stated = design_of(load_comparison("duet-or-one"), Choice(TWO, PAIR)).package
    assert technology_of(as_stated).economics.volume == 100_000
    assert package_cost(plain) == package_cost(as_stated)
    assert package_cost(large).nre == pytest.approx(package_cost(plain).nre / 10)
    assert package_cost(large).recurring == package_cost(plain).recurring
    # Costs and temperatures of many packages are known by the identity of their technology.
    other = design_of(comparisons[1], Choice(TWO, {**PAIR, "P": 7})).package
    assert len({id(technology_of(one)) for one in (large, *large.parts, other, *other.parts)}) == 1


def test_a_volume_is_a_whole_number_of_packages() -> None:
    with pytest.raises(InputError, match="volume"):
        load_comparison("duet-or-one", ["volume=0"])
