"""Comparisons: contenders chosen by equal searches and simulated with the same requests, case by case."""

from __future__ import annotations

from hydra_dse.studies.comparison.study import COMPARED, POINTS, SUMMARY, ComparisonResult, compare

__all__ = ["COMPARED", "POINTS", "SUMMARY", "ComparisonResult", "compare"]
