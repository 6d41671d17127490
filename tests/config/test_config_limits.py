"""Limits of a policy in a design file."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from hydra_dse.config.pieces import policy_of
from hydra_dse.config.policy_schema import PolicySection
from hydra_dse.policy import BATCHING, SCHEDULING, Policy


def test_a_policy_section_without_limits_is_the_default_policy() -> None:
    assert policy_of(PolicySection()) == Policy()


def test_limits_reach_the_policy_with_their_units() -> None:
    section = PolicySection.model_validate(
        {"batching": "chunked", "max_waiting": 12, "ageing": "500 ms", "class_preemption": True}
    )
    policy = policy_of(section)
    assert (policy.max_waiting, policy.ageing_s, policy.class_preemption) == (12, 0.5, True)


@pytest.mark.parametrize("batching", BATCHING)
@pytest.mark.parametrize("scheduling", SCHEDULING)
def test_every_batching_and_order_of_the_policy_can_be_written(batching: str, scheduling: str) -> None:
    policy = policy_of(PolicySection.model_validate({"batching": batching, "scheduling": scheduling}))
    assert (policy.batching, policy.scheduling) == (batching, scheduling)


@pytest.mark.parametrize(
    "values",
    [{"max_waiting": 0}, {"ageing": "0 s"}, {"ageing": "-1 s"}, {"batching": "static", "class_preemption": True}],
)
def test_limits_that_mean_nothing_are_refused(values: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        PolicySection.model_validate(values)
