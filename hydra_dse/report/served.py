"""What the recommended design serves: the workload of the experiment, or some of its scenarios to choose from."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from hydra_dse.errors import HydraError
from hydra_dse.estimator import estimate_designs
from hydra_dse.estimator.explain import Explanation, explain
from hydra_dse.placement import place_design
from hydra_dse.report.records import Section
from hydra_dse.report.run import Run
from hydra_dse.report.stored import file_word
from hydra_dse.search.estimating import PLACEMENT_SEED
from hydra_dse.search.outer import evenly
from hydra_dse.studies.robust_files import SCENARIOS
from hydra_dse.workload import at_rate, served
from hydra_dse.workload.nouns import Workload

MOST = 6
"""Scenarios that a page shows in full."""
RATE = "saturation_requests_per_s"


@dataclass(frozen=True)
class Served:
    """A load of the recommended design.

    Attributes:
        name: of the scenario; empty where the experiment has none.
        metrics: estimates by name, NaN where unknown.
        explanation: the design taken apart under this load, or why it cannot be.
        simulated: whether the run's validation is of this load.
        note: at which rate, where that is not the workload's own.
    """

    name: str
    workload: Workload
    metrics: Mapping[str, float]
    explanation: Explanation | str
    simulated: bool = False
    note: str = ""

    def stem(self, name: str) -> str:
        """Name of the files of a figure for this load."""
        return f"{name}_{file_word(self.name)}" if self.name else name


def loads_of(run: Run) -> tuple[Served, ...]:
    """The workload of the experiment, or at most `MOST` of its scenarios, spread evenly; none without a design."""
    items, workload = run.experiment.scenarios.items, run.experiment.workload
    if run.recommended < 0:
        return ()
    if not items:
        metrics = {name: run.estimate(name, run.recommended) for name in run.designs.scores.metrics}
        return (Served("", workload, metrics, explained(run, workload), simulated=True),)
    rates = _stored_rates(run)
    found = (_scenario(run, items[place].name, items[place].workload, rates) for place in evenly(MOST, len(items)))
    return tuple(load for load in found if load is not None)


def explained(run: Run, workload: Workload) -> Explanation | str:
    """The recommended design taken apart by the estimator, or why it cannot be."""
    if run.recommended < 0:
        return "no design is feasible"
    try:
        return explain(run.design(run.recommended), workload, run.experiment.calibration)[1]
    except HydraError as error:
        return f"the estimate cannot be taken apart: {error}"


def sections_of(run: Run, loads: Sequence[Served], heading: str, section: Callable[[Run, Served], Section]) -> Section:
    """A section of the one load, or one with a choice of several."""
    if run.recommended < 0:
        return Section(heading, absent="no design is feasible")
    if len(loads) == 1 and not loads[0].name:
        return section(run, loads[0])
    shown = [(load, section(run, load)) for load in loads]
    choices = tuple(_choice(load, found) for load, found in shown if not found.absent)
    if not choices:
        reasons = dict.fromkeys(found.absent for _, found in shown)
        return Section(heading, absent="; ".join(reasons) or "no scenario has an estimate of the recommended design")
    left = len(run.experiment.scenarios.items) - len(choices)
    words = "Open the scenario to look at." + (f" {left} others of the run are not drawn." if left else "")
    return Section(heading, (words,), choices=choices)


def _choice(load: Served, found: Section) -> Section:
    """A section under the name of its scenario, figures with it in their captions."""
    plots = tuple(replace(plot, caption=f"{load.name}: {plot.caption}") for plot in found.plots)
    words = (f"{load.note[:1].upper()}{load.note[1:]}.",) if load.note else ()
    return replace(found, heading=load.name, paragraphs=(*words, *found.paragraphs), plots=plots)


def _scenario(run: Run, name: str, workload: Workload, rates: Mapping[str, float]) -> Served | None:
    """The recommended design under a scenario; None without an estimate."""
    load, note = run.experiment.scenarios.load, ""
    if name in rates:
        workload, note = at_rate(workload, rates[name]), f"at {rates[name]:.4g} requests/s"
    elif load is not None:
        saturation = _estimate(run, workload).get(RATE, math.nan)
        if not saturation > 0:
            return None
        workload = at_rate(workload, load * saturation)
        note = f"at {load * saturation:.4g} requests/s, {load:g} of this design's own saturation"
    metrics = _estimate(run, workload)
    return Served(name, workload, metrics, explained(run, workload), note=note) if metrics else None


def _estimate(run: Run, workload: Workload) -> dict[str, float]:
    try:
        models = [kind.model for kind in served(workload)]
        placed, violations = place_design(run.design(run.recommended), models, PLACEMENT_SEED)
        if violations:
            return {}
        table = estimate_designs([placed], workload, run.experiment.calibration)
    except HydraError:  # no estimate under this load: the scenario is left out
        return {}
    return {name: float(values[0]) for name, values in table.metrics.items()}


def _stored_rates(run: Run) -> dict[str, float]:
    """Rates by scenario, as a study of robustness stored them."""
    run.directory.refuse_links(SCENARIOS)
    path = run.directory.path / SCENARIOS
    if not path.is_file():
        return {}
    rows = csv.DictReader(io.StringIO(path.read_text(encoding="utf-8", errors="replace")))
    found = {}
    for row in rows:
        try:
            found[f"{row['model']}/{row['workload']}"] = float(row["rate_requests_per_s"])
        except (KeyError, TypeError, ValueError):
            continue
    return found
