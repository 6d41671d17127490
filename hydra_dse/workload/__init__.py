"""Requests: arrivals, lengths, classes and service levels."""

from __future__ import annotations

from hydra_dse.workload.arrivals import Deterministic, Mmpp, Renewal, poisson
from hydra_dse.workload.by_model import Served, served
from hydra_dse.workload.context import context_notes
from hydra_dse.workload.lengths import Empirical, JointLengths, fixed
from hydra_dse.workload.marginals import Constant, Lognormal, Quantiles
from hydra_dse.workload.nouns import (
    Arrivals,
    ArrivalStatistics,
    LengthPoints,
    Lengths,
    RequestClass,
    Requests,
    Shift,
    Slo,
    Workload,
)
from hydra_dse.workload.orders import check_order, check_reuse
from hydra_dse.workload.pieces import Path, Piece, pieces
from hydra_dse.workload.prefixes import Prefixes, Think
from hydra_dse.workload.replay import Replay
from hydra_dse.workload.sampling import arrival_statistics, at_rate, length_points, long_run_shares, requests
from hydra_dse.workload.skew import RoutingSkew, with_skew
from hydra_dse.workload.varying import Diurnal, Piecewise

__all__ = [
    "ArrivalStatistics",
    "Arrivals",
    "Constant",
    "Deterministic",
    "Diurnal",
    "Empirical",
    "JointLengths",
    "LengthPoints",
    "Lengths",
    "Lognormal",
    "Mmpp",
    "Path",
    "Piece",
    "Piecewise",
    "Prefixes",
    "Quantiles",
    "Renewal",
    "Replay",
    "RequestClass",
    "Requests",
    "RoutingSkew",
    "Served",
    "Shift",
    "Slo",
    "Think",
    "Workload",
    "arrival_statistics",
    "at_rate",
    "check_order",
    "check_reuse",
    "context_notes",
    "fixed",
    "length_points",
    "long_run_shares",
    "pieces",
    "poisson",
    "requests",
    "served",
    "with_skew",
]
