"""Search: Optuna proposes outer points, whole batches are scored, a Pareto archive keeps the best."""

from __future__ import annotations

from hydra_dse.search.archive import Archive
from hydra_dse.search.hypervolume import hypervolume
from hydra_dse.search.objectives import Objectives
from hydra_dse.search.pareto import crowding, nondominated, ranks
from hydra_dse.search.samplers import SAMPLERS
from hydra_dse.search.scores import Scorer, ScoreTable
from hydra_dse.search.study import Search
from hydra_dse.search.variants import Candidate

__all__ = [
    "SAMPLERS",
    "Archive",
    "Candidate",
    "Objectives",
    "ScoreTable",
    "Scorer",
    "Search",
    "crowding",
    "hypervolume",
    "nondominated",
    "ranks",
]
