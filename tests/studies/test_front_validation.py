"""What validation says of the front: dominance under noise, replications where needed, correction until stable."""

from __future__ import annotations

import csv
import math
from dataclasses import dataclass, field

import numpy as np
import pytest
import scipy.stats

from hydra_dse.results import Evaluation
from hydra_dse.search.objectives import Objectives
from hydra_dse.studies.dominance import DOMINATED, ON_FRONT, UNDECIDED, SimulatedLosses, statuses, to_be_refined
from hydra_dse.studies.front_check import OUTSIDE, PROMOTED, TOP, check_front, kendall_tau, spearman
from hydra_dse.studies.residual import fit_residual
from hydra_dse.studies.sweep import sweep
from hydra_dse.studies.validation import validate
from studies.toy import ToyScorer, toy_experiment


def losses(*rows: tuple[float, float], noise: float = 0.0) -> SimulatedLosses:
    values = np.array(rows)
    return SimulatedLosses(values, np.full(values.shape, noise))


# -- dominance ----------------------------------------------------------------------------------------------------


def test_without_noise_certain_dominance_is_plain_dominance() -> None:
    found = losses((1, 4), (2, 2), (4, 1), (3, 3), (2, 2))
    assert statuses(found) == (ON_FRONT, ON_FRONT, ON_FRONT, DOMINATED, ON_FRONT)
    assert to_be_refined(found) == []


def test_a_difference_within_the_noise_decides_nothing() -> None:
    assert statuses(losses((1.0, 1.0), (1.1, 1.1), noise=0.2)) == (UNDECIDED, UNDECIDED)
    assert statuses(losses((1.0, 1.0), (2.0, 2.0), noise=0.2)) == (ON_FRONT, DOMINATED)


def test_only_designs_in_doubt_and_their_rivals_are_simulated_on() -> None:
    found = losses((1.0, 5.0), (1.05, 4.95), (5.0, 1.0), (9.0, 9.0), noise=0.2)
    assert to_be_refined(found) == [0, 1]


def test_a_value_of_unknown_noise_never_decides() -> None:
    found = SimulatedLosses(np.array([[1.0, 1.0], [9.0, 9.0]]), np.array([[0.1, np.nan], [0.1, 0.1]]))
    assert statuses(found)[1] == UNDECIDED


def test_certain_dominance_is_wrong_in_less_than_five_percent_of_noisy_draws() -> None:
    """Two designs that are equal in both objectives: whoever is called better is called so by mistake."""
    rng = np.random.default_rng(7)
    wrong = 0
    for _ in range(4000):
        pair = SimulatedLosses(rng.normal(0.0, 1.0, (2, 2)), np.full((2, 2), 1.96))
        wrong += bool(pair.certainly_dominates().any())
    assert wrong / 4000 < 0.05


# -- order and regret ---------------------------------------------------------------------------------------------


def test_rank_correlations_agree_with_scipy_ties_included() -> None:
    rng = np.random.default_rng(3)
    one, other = rng.integers(0, 8, 40).astype(float), rng.integers(0, 8, 40).astype(float)
    assert kendall_tau(one, other) == pytest.approx(scipy.stats.kendalltau(one, other).statistic)
    assert spearman(one, other) == pytest.approx(scipy.stats.spearmanr(one, other).statistic)
    assert math.isnan(spearman(np.ones(4), other[:4]))


def test_an_outsider_that_dominates_a_chosen_design_is_regret() -> None:
    objectives = Objectives.named(("saturation_tokens_per_s", "ttft_mean_s"))
    simulated = {"saturation_tokens_per_s": np.array([10.0, 100.0]), "ttft_mean_s": np.array([2.0, 1.0])}
    values = SimulatedLosses(objectives.losses(simulated), np.zeros((2, 2)))
    check = check_front(objectives, [TOP, OUTSIDE], simulated, simulated, values)
    assert (check.outside, check.outside_better) == (1, 1)
    assert 0.5 < check.regret < 1.0


def test_the_winners_curse_shows_as_an_error_of_the_chosen_alone() -> None:
    objectives = Objectives.named(("ttft_mean_s",))
    simulated = {"ttft_mean_s": np.array([1.0, 1.0, 1.0, 1.0])}
    estimates = {"ttft_mean_s": np.array([0.8, 0.8, 1.0, 1.0])}
    values = SimulatedLosses(objectives.losses(simulated), np.zeros((4, 1)))
    [order] = check_front(objectives, [TOP, TOP, OUTSIDE, OUTSIDE], estimates, simulated, values).orders
    assert (order.error_top, order.error_outside) == (pytest.approx(-0.2), 0.0)


# -- correction ---------------------------------------------------------------------------------------------------


def test_a_common_factor_is_learnt_from_few_designs() -> None:
    rng = np.random.default_rng(1)
    estimates = rng.uniform(1.0, 10.0, 6)
    features = rng.normal(size=(6, 4))
    found = fit_residual(estimates, 1.3 * estimates, features)
    assert found.corrected(np.array([2.0]), rng.normal(size=(1, 4))) == pytest.approx(2.6)
    assert found.error == pytest.approx(0.0, abs=1e-12)
    assert found.before == pytest.approx(math.log(1.3))


def test_an_error_that_follows_a_parameter_is_learnt_and_noise_is_not() -> None:
    rng = np.random.default_rng(2)
    estimates, features = rng.uniform(1.0, 10.0, 40), rng.normal(size=(40, 3))
    follows = fit_residual(estimates, estimates * np.exp(0.3 * features[:, 0]), features)
    assert follows.weights[0] == pytest.approx(0.3 * features[:, 0].std(), rel=0.05)
    noise = fit_residual(estimates, estimates * np.exp(rng.normal(0.0, 0.1, 40)), features)
    assert np.abs(noise.weights).max() < 0.05


def test_leave_one_out_errors_are_those_of_refitting_without_the_design() -> None:
    rng = np.random.default_rng(5)
    estimates, nothing = rng.uniform(1.0, 10.0, 9), np.zeros((9, 1))
    simulated = estimates * np.exp(rng.normal(0.1, 0.05, 9))
    left = []
    for index in range(9):
        rest = np.delete(np.arange(9), index)
        again = fit_residual(estimates[rest], simulated[rest], nothing[rest]).corrected(estimates[[index]], nothing[:1])
        left.append(math.log(simulated[index] / float(again[0])))
    found = fit_residual(estimates, simulated, nothing)
    assert found.error == pytest.approx(float(np.sqrt(np.mean(np.square(left)))))


# -- the loop -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class NoisySimulation:
    """Exact means with intervals that shrink with the replications; `penalty` spoils designs of large batch."""

    penalty: float = 1.0
    noise: float = 0.3
    calls: list = field(default_factory=list, compare=False)

    def evaluate(self, point, options, seed):
        self.calls.append((tuple(point.items()), options.replications))
        scored = ToyScorer().score([point]).metrics
        rate, delay = (float(scored[name][0]) for name in ("saturation_tokens_per_s", "ttft_mean_s"))
        if point["batch"] == 16:
            rate /= self.penalty
        share = self.noise / math.sqrt(options.replications)
        metrics = {"saturation_tokens_per_s": rate, "ttft_mean_s": delay}
        return Evaluation("simulated", metrics, {name: (v - share * v, v + share * v) for name, v in metrics.items()})


@pytest.fixture
def run(tmp_path):
    sweep(toy_experiment(), tmp_path / "run", scorer=ToyScorer())
    return tmp_path / "run"


def check(run, simulation, **settings):
    settings = {"top": 6, "outside": 0, "replications": 2, "experiment": toy_experiment()} | settings
    return validate(run, simulation=simulation, **settings)


def test_replications_go_to_designs_whose_place_is_undecided(run) -> None:
    simulation = NoisySimulation()
    result = check(run, simulation, max_replications=16)
    used = {row.design: row.replications for row in result.rows}
    decided = [name for name, status in result.status.items() if status != UNDECIDED]
    assert max(used.values()) > 2
    assert all(used[name] == 16 for name, status in result.status.items() if status == UNDECIDED)
    assert sum(used.values()) < 16 * len(used) or not decided
    exact = check(run, NoisySimulation(noise=0.0), max_replications=16, requests=99)
    assert set(exact.status.values()) <= {ON_FRONT, DOMINATED}


def test_without_noise_no_design_is_simulated_twice(run) -> None:
    simulation = NoisySimulation(noise=0.0)
    check(run, simulation, max_replications=64)
    assert len(simulation.calls) == 6


def test_random_designs_outside_the_choice_are_simulated_and_marked(run) -> None:
    result = check(run, NoisySimulation(noise=0.0), outside=4)
    assert [design.role for design in result.chosen] == [TOP] * 6 + [OUTSIDE] * 4
    assert result.check is not None
    assert result.check.outside == 4
    rows = list(csv.DictReader((run / "pareto_validated.csv").read_text().splitlines()))
    assert [row["role"] for row in rows].count(OUTSIDE) == 4
    assert {row["status_95"] for row in rows} <= {ON_FRONT, DOMINATED, UNDECIDED}
    again = check(run, NoisySimulation(noise=0.0), outside=4)
    assert (again.chosen, again.resumed) == (result.chosen, 10)


def test_a_biased_estimator_is_corrected_until_the_front_is_stable(run) -> None:
    """Simulation finds designs of batch 16 ten times slower than estimated: others belong on the front."""
    simulation = NoisySimulation(penalty=10.0, noise=0.0)
    once = check(run, simulation, outside=2)
    result = check(run, simulation, outside=2, until_stable=True)
    assert result.check is not None
    assert result.check.stable
    assert result.check.rounds >= 1
    assert {design.role for design in result.chosen} == {TOP, OUTSIDE, PROMOTED}
    assert result.resumed == len(once.chosen)
    best = {design.identity: design.point["batch"] for design in result.chosen if design.identity in result.front}
    assert sum(batch != 16 for batch in best.values()) > sum(
        design.point["batch"] != 16 for design in once.chosen if design.identity in once.front
    )


def test_a_stable_front_needs_no_promotion(run) -> None:
    result = check(run, NoisySimulation(noise=0.0), top=60, until_stable=True)
    assert result.check is not None
    assert (result.check.stable, result.check.rounds) == (True, 0)
