"""YAML to nouns: schema, loader with line numbers, finder.

The names below are imported when first used, so that commands which read no file start without pydantic.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from hydra_dse.config.finder import bundled, find

if TYPE_CHECKING:
    from hydra_dse.config.check import check_file
    from hydra_dse.config.comparisons import load_comparison
    from hydra_dse.config.designs import load_design
    from hydra_dse.config.experiments import load_experiment
    from hydra_dse.config.hardware import load_calibration, load_chiplet, load_link, load_memory
    from hydra_dse.config.spaces import load_space
    from hydra_dse.config.technology import load_technology
    from hydra_dse.config.variances import load_variance
    from hydra_dse.config.workloads import load_model, load_workload

_HOMES = {
    "check_file": "check",
    "load_calibration": "hardware",
    "load_comparison": "comparisons",
    "load_chiplet": "hardware",
    "load_design": "designs",
    "load_experiment": "experiments",
    "load_link": "hardware",
    "load_memory": "hardware",
    "load_model": "workloads",
    "load_space": "spaces",
    "load_technology": "technology",
    "load_variance": "variances",
    "load_workload": "workloads",
}

__all__ = [
    "bundled",
    "check_file",
    "find",
    "load_calibration",
    "load_chiplet",
    "load_comparison",
    "load_design",
    "load_experiment",
    "load_link",
    "load_memory",
    "load_model",
    "load_space",
    "load_technology",
    "load_variance",
    "load_workload",
]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(f"hydra_dse.config.{_HOMES[name]}"), name)
    raise AttributeError(name)
