"""Optuna samplers by short name, made anew for every generation, and the distributions that they draw from.

A sampler keeps a random state that Optuna does not store, so a resumed study would go another way.  Made anew
with a seed derived from the generation, it proposes the same trials after a resume as without one.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from itertools import pairwise
from typing import TYPE_CHECKING

from hydra_dse.design.space import Parameter
from hydra_dse.errors import Fault, InputError, did_you_mean, one_of
from hydra_dse.rng import derive
from hydra_dse.search.outer import is_ordered

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution
    from optuna.samplers import BaseSampler

_LARGEST_SEED = 2**31 - 1


def _nsga2(seed: int, population: int) -> BaseSampler:
    from optuna.samplers import NSGAIISampler

    return NSGAIISampler(population_size=population, seed=seed)


def _nsga3(seed: int, population: int) -> BaseSampler:
    from optuna.samplers import NSGAIIISampler

    return NSGAIIISampler(population_size=population, seed=seed)


def _random(seed: int, population: int) -> BaseSampler:
    from optuna.samplers import RandomSampler

    return RandomSampler(seed=seed)


def _tpe(seed: int, population: int) -> BaseSampler:
    from optuna.samplers import TPESampler

    return TPESampler(seed=seed, multivariate=True, n_startup_trials=population)


def _qmc(seed: int, population: int) -> BaseSampler:
    from optuna.samplers import QMCSampler

    return QMCSampler(seed=seed, scramble=True, warn_independent_sampling=False)


SAMPLERS: dict[str, Callable[[int, int], BaseSampler]] = {
    "nsga2": _nsga2,
    "nsga3": _nsga3,
    "random": _random,
    "tpe": _tpe,
    "qmc": _qmc,
    "neighbours": _random,
}


def check_sampler(name: str) -> None:
    """Raise `InputError` where no sampler has this name."""
    if name not in SAMPLERS:
        raise InputError(
            Fault(
                f"unknown sampler {name!r}{did_you_mean(name, SAMPLERS)}: use {one_of(SAMPLERS)}",
                path="search.sampler",
            )
        )


def make_sampler(name: str, seed: int, generation: int, population: int) -> BaseSampler:
    """Return the sampler `name` for one generation.

    A quasi-random sequence is scrambled once per study: its sampler counts on one seed throughout.
    """
    from optuna.exceptions import ExperimentalWarning

    check_sampler(name)
    key = "scramble" if name == "qmc" else generation
    number = int(derive(seed, "sampler", key).integers(_LARGEST_SEED))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ExperimentalWarning)  # Optuna is pinned: its interface does not change
        return SAMPLERS[name](number, population)


def distribution(parameter: Parameter) -> BaseDistribution:
    """Evenly spaced integers keep their order; everything else is a set of choices."""
    from optuna.distributions import CategoricalDistribution, IntDistribution

    choices = parameter.choices
    if is_ordered(parameter) and all(isinstance(choice, int) for choice in choices):
        steps = {int(later) - int(sooner) for sooner, later in pairwise(choices)}
        if not steps or (len(steps) == 1 and min(steps) > 0):
            return IntDistribution(int(choices[0]), int(choices[-1]), step=min(steps, default=1))
    return CategoricalDistribution(choices)
