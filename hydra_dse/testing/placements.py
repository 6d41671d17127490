"""Contract of placements: distinct slots, the same whenever asked, and a package that routes all its traffic."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from hydra_dse import extensions
from hydra_dse.config import load_design, load_model
from hydra_dse.design.nouns import Design
from hydra_dse.mapping import reference_traffic
from hydra_dse.placement import Problem, place, placement_violations
from hydra_dse.placement.added import slots_of
from hydra_dse.placement.problem import FloatArray, IntArray

NAME = "placement-under-test"


class PlacementContract:
    """Tests of a function from a `Problem` to slots; override `algorithm`, and `designs` to test on others."""

    def algorithm(self) -> Callable[[Problem], IntArray | Sequence[int]]:
        """What is tested."""
        raise NotImplementedError

    def designs(self) -> Sequence[Design]:
        """Designs whose packages are placed, for the traffic of Nemotron-H-8B."""
        return [load_design("hydra-24-nemotron-chat"), load_design("split-24-nemotron-chat")]

    def _cases(self) -> list[tuple[Design, FloatArray]]:
        model = load_model("nemotron-h-8b")
        return [(design, reference_traffic(design, model)) for design in self.designs()]

    def test_every_component_gets_a_slot_of_its_own(self) -> None:
        for design, traffic in self._cases():
            slots = slots_of(self.algorithm(), Problem(design.package, traffic), NAME)
            assert len(set(slots.tolist())) == design.package.die_count + design.package.stack_count

    def test_the_same_problem_gives_the_same_slots(self) -> None:
        for design, traffic in self._cases():
            problem = Problem(design.package, traffic)
            first, second = (slots_of(self.algorithm(), problem, NAME) for _ in range(2))
            assert np.array_equal(first, second)

    def test_the_problem_is_left_as_it_was(self) -> None:
        for design, traffic in self._cases():
            problem = Problem(design.package, traffic.copy())
            slots_of(self.algorithm(), problem, NAME)
            assert np.array_equal(problem.traffic, traffic)

    def test_the_package_routes_all_traffic_once_it_is_mended(self) -> None:
        for design, traffic in self._cases():
            with extensions.registered(extensions.PLACEMENTS, NAME, self.algorithm()):
                outcome = place(design.package, traffic, NAME, 0)
            assert outcome.placement is not None
            assert not placement_violations(design.package, outcome.placement.slots)
            assert outcome.objective_bytes > 0
