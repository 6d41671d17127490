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
from hydra_dse.report.summary import provenance_section, recommendation_section, summary_section
from hydra_dse.report.texts import detail_of
from hydra_dse.report.uncertainty import uncertainty_section
from hydra_dse.report.validation import validation_section

_SECTIONS = (
    summary_section, recommendation_section, front_section, package_section, iteration_section, latency_section,
    load_section, importance_section, constraints_section, robustness_section, uncertainty_section, validation_section,
    provenance_section,
)  # fmt: skip


def report_of(run: Run) -> Report:
    """Everything that a report says of a run.

    Raises:
        InputError: a table in the run directory is corrupt.
    """
    return Report(
        title=f"{run.experiment.name}: design-space exploration",
        subtitle=run.purpose,
        sections=tuple(section(run) for section in _SECTIONS),
        details=tuple(detail_of(run, row) for row in explored(run)),
        recommended=run.identity(run.recommended) if run.recommended >= 0 else "",
    )
