"""Mean power of every die and stack of a design under a workload."""

from __future__ import annotations

from hydra_dse.design.nouns import Design
from hydra_dse.errors import Fault, InputError
from hydra_dse.estimator.explain import explain
from hydra_dse.hardware.calibration import CalibrationSet
from hydra_dse.workload.nouns import Workload


def powers_of(design: Design, workload: Workload, calibration: CalibrationSet) -> tuple[list[float], str]:
    """Estimated power of each part, dies first, then stacks, in W, and what it holds for.

    The power of links falls on all parts alike; leakage is that at the nominal temperature.

    Raises:
        InputError: the design cannot be estimated.
    """
    evaluation, explanation = explain(design, workload, calibration)
    if explanation is None or explanation.package is None:
        reasons = "; ".join(str(one) for one in evaluation.violations)
        raise InputError(Fault(f"has no estimated power: {reasons}", design.name or None))
    rows = {row.part: row for row in explanation.package.parts}
    names = design.package.component_groups
    each = [(rows[name].dynamic_w + rows[name].static_w) / rows[name].count for name in names]
    shared = sum(row.dynamic_w + row.static_w for name, row in rows.items() if name not in names) / len(each)
    load = evaluation.metrics.get("load")
    at = f"load {load:.3g}" if load is not None else "the offered load"
    return [watts + shared for watts in each], f"means under {workload.name} at {at}, estimated"
