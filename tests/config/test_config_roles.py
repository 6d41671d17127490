"""Task maps in design files."""

from __future__ import annotations

import pytest

from hydra_dse.config import load_design
from hydra_dse.errors import InputError

DESIGN = "hydra-24-nemotron-chat"


def test_a_design_is_static_unless_it_says_otherwise() -> None:
    assert load_design(DESIGN).policy.task_map == "static"


def test_an_elastic_policy_reaches_the_design() -> None:
    policy = load_design(DESIGN, ["policy.task_map=elastic", "policy.role_up_prompts=6"]).policy
    assert (policy.task_map, policy.role_up_prompts, policy.role_down_prompts) == ("elastic", 6, 0)


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        (["policy.task_map=elastick"], "did you mean 'elastic'"),
        (["policy.task_map=elastic", "policy.serving=colocated"], "needs two pools"),
        (["policy.role_up_prompts=2", "policy.role_down_prompts=2"], "must be fewer than role_up_prompts = 2"),
        (["policy.role_unit_dies=0"], "role_unit_dies"),
    ],
)
def test_a_wrong_task_map_is_refused_with_what_would_be_accepted(overrides: list[str], words: str) -> None:
    with pytest.raises(InputError, match=words):
        load_design(DESIGN, overrides)
