"""The contents of a report in the order of the page."""

from __future__ import annotations

from hydra_dse.report.constraints import constraints_section
from hydra_dse.report.fronts import explored, front_section
from hydra_dse.report.importance import importance_section
from hydra_dse.report.iteration import iteration_section
from hydra_dse.report.latency import latency_section
from hydra_dse.report.load import load_section
from hydra_dse.report.package import package_section
from hydra_dse.report.records import Report
from hydra_dse.report.robustness import robustness_section
from hydra_dse.report.run import Run
from hydra_dse.report.served import loads_of
from hydra_dse.report.summary import provenance_section, recommendation_section, summary_section
from hydra_dse.report.texts import detail_of
from hydra_dse.report.uncertainty import uncertainty_section
from hydra_dse.report.validation import validation_section


def report_of(run: Run) -> Report:
    """Everything that a report says of a run.

    Raises:
        InputError: a table in the run directory is corrupt.
    """
    loads = loads_of(run)
    sections = (
        summary_section(run),
        recommendation_section(run),
        front_section(run),
        package_section(run, loads),
        iteration_section(run, loads),
        latency_section(run, loads),
        load_section(run, loads),
        importance_section(run),
        constraints_section(run),
        robustness_section(run),
        uncertainty_section(run),
        validation_section(run),
        provenance_section(run),
    )
    return Report(
        title=f"{run.experiment.name}: design-space exploration",
        subtitle=run.purpose,
        sections=sections,
        details=tuple(detail_of(run, row) for row in explored(run)),
        recommended=run.identity(run.recommended) if run.recommended >= 0 else "",
    )
