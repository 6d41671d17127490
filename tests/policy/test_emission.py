"""Tokens of a decode step in the policy and in design files."""

from __future__ import annotations

import pytest

from hydra_dse.config import load_design
from hydra_dse.errors import InputError
from hydra_dse.policy import ONE_TOKEN, Emission, Policy

DESIGN = "hydra-24-nemotron-chat"


def test_a_step_emits_and_computes_one_token_unless_the_policy_says_otherwise() -> None:
    assert Policy().emission == ONE_TOKEN == load_design(DESIGN).policy.emission
    assert (ONE_TOKEN.single, ONE_TOKEN.mean, ONE_TOKEN.positions) == (True, 1.0, 1)


def test_moments_are_those_of_the_distribution() -> None:
    emission = Emission((0.5, 0.3, 0.2), 3)
    assert emission.mean == pytest.approx(0.5 + 0.6 + 0.6)
    assert emission.mean_square == pytest.approx(0.5 + 4 * 0.3 + 9 * 0.2)


def test_a_step_computes_as_many_positions_as_it_may_emit_or_as_are_stated() -> None:
    assert Policy(tokens_per_step=(0.4, 0.3, 0.3)).emission.positions == 3
    assert Policy(tokens_per_step=(0.4, 0.6), verified_positions=8).emission.positions == 8


def test_a_design_file_states_them() -> None:
    policy = load_design(DESIGN, ["policy.tokens_per_step=[0.25, 0.75]", "policy.verified_positions=4"]).policy
    assert policy.emission == Emission((0.25, 0.75), 4)


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        (["policy.tokens_per_step=[0.5, 0.4]"], "tokens_per_step: .* sum to 0.9; they must sum to 1"),
        (["policy.tokens_per_step=[]"], "needs the probabilities of 1 to at most 64 tokens, got 0"),
        (["policy.tokens_per_step=[1.5, -0.5]"], "1.5 is not a probability"),
        (["policy.tokens_per_step=[1.0, 0.0]"], "the last probability is 0; leave it out"),
        (["policy.tokens_per_step=2"], "tokens_per_step"),
        (
            ["policy.tokens_per_step=[0.5, 0.5]", "policy.verified_positions=1"],
            "1 positions cannot emit up to 2 tokens",
        ),
        (["policy.token_per_step=[1.0]"], "did you mean 'tokens_per_step'"),
        (
            [
                "policy.serving=colocated",
                "policy.tokens_per_step=[0.5, 0.5]",
                "policy.max_batch=64",
                "policy.token_budget=100",
            ],
            "100 tokens do not hold the 2 positions of a step of each of max_batch = 64",
        ),
    ],
)
def test_a_wrong_distribution_is_refused_with_what_would_be_accepted(overrides: list[str], words: str) -> None:
    with pytest.raises(InputError, match=words):
        load_design(DESIGN, overrides)


def test_a_policy_made_in_python_is_checked_when_it_is_used() -> None:
    with pytest.raises(InputError, match=r"tokens_per_step: .* sum to 0\.7"):
        _ = Policy(tokens_per_step=(0.5, 0.2)).emission
    with pytest.raises(InputError, match="verified_positions"):
        _ = Policy(tokens_per_step=(0.5, 0.5), verified_positions=1).emission
