"""Design-space exploration of chiplet packages that serve hybrid Transformer-Mamba LLMs.

In a notebook or a script: `from hydra_dse import estimate, load_experiment, simulate, sweep, validate`.  These names
are imported when first used, so that `import hydra_dse` stays light; their types stand in `__init__.pyi`.
"""

__version__ = "0.1.0"

__all__ = [
    "__version__", "compare", "dynamic", "estimate", "explain", "load_calibration", "load_design", "load_experiment",
    "load_workload", "open_run", "robustness", "simulate", "sweep", "uncertainty", "validate", "variance", "whatif",
]  # fmt: skip


def __getattr__(name: str) -> object:
    if name in __all__:
        import importlib

        return getattr(importlib.import_module("hydra_dse.api"), name)
    raise AttributeError(f"module 'hydra_dse' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
