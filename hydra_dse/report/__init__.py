"""Tables, plots and the HTML report of a run."""

from __future__ import annotations

from hydra_dse.report.build import build_report

__all__ = ["build_report"]
