"""How designs keep up on models they were not made for: `robustness.csv`, where the run directory has one."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping

import numpy as np

from hydra_dse.errors import Fault, InputError
from hydra_dse.report.charts import HeatMap, Plot
from hydra_dse.report.records import Section
from hydra_dse.report.run import Run
from hydra_dse.report.stored import file_word, optional_bytes
from hydra_dse.studies.robust_files import ROBUSTNESS
from hydra_dse.studies.role_search import EVERY

HEADING = "Robustness over models"
SHARE = "retained_share"
COLUMNS = ("design", "model", "metric", SHARE)


def robustness_section(run: Run) -> Section:
    """A heat map for each metric: share of a model's own best that each design retains."""
    data = optional_bytes(run.directory, ROBUSTNESS)
    if data is None:
        return Section(HEADING, absent=f"the run directory has no {ROBUSTNESS}: run hydra-dse robustness")
    shares = read_shares(data, str(run.directory.path / ROBUSTNESS))
    plots = tuple(_plot(name, found) for name, found in shares.items())
    words = "Share of each model's own best that a design keeps (1 = as good as the specialist), and its worst case."
    return Section(HEADING, (words,), plots)


def read_shares(data: bytes, file: str) -> dict[str, dict[tuple[str, str], float]]:
    """By metric, the retained share of each design (by its role, where the table has roles) and model (and load).

    Raises:
        InputError: not such a table.
    """
    found: dict[str, dict[tuple[str, str], float]] = {}
    try:
        reader = csv.DictReader(io.StringIO(data.decode()))
        missing = [name for name in COLUMNS if name not in (reader.fieldnames or ())]
        if missing:
            raise ValueError(f"no column {missing[0]!r}")
        for row in reader:
            value = float(row[SHARE]) if row[SHARE] else math.nan
            place = ", ".join(part for part in (row["model"], row.get("workload")) if part)
            found.setdefault(row["metric"], {})[row.get("role") or row["design"], place] = value
    except (ValueError, TypeError, csv.Error) as error:
        raise InputError(Fault(f"not a readable table of robustness ({error})", file=file)) from error
    return found


def _plot(name: str, shares: Mapping[tuple[str, str], float]) -> Plot:
    designs = tuple(dict.fromkeys(design for design, _ in shares))
    models = tuple(dict.fromkeys(model for _, model in shares))
    values = np.array([[shares.get((design, model), math.nan) for model in models] for design in designs])
    with np.errstate(invalid="ignore"):
        worst = np.array([np.nanmin(row) if np.isfinite(row).any() else math.nan for row in values])
    order = np.argsort(-np.nan_to_num(worst, nan=-1.0), kind="stable")
    whole = np.column_stack([values, worst])[order]
    texts = tuple(tuple("" if math.isnan(v) else f"{v:.2f}" for v in row) for row in whole.tolist())
    label = f"retained share of {_label(name)} [1]"
    names = tuple(designs[place] for place in order.tolist())
    chart = HeatMap(names, (*models, "worst"), whole, texts, label, 0.0, 1.0)
    rows = [(name, design, model, share) for (design, model), share in shares.items()]
    caption = "Rows: designs, the best worst case first; columns: what they serve, and the worst of the row."
    title = f"Retained share of {_label(name)}"
    return Plot(f"robustness_{file_word(name)[:60]}", title, caption, chart, ("metric", "design", "model", SHARE), rows)


def _label(name: str) -> str:
    from hydra_dse.results import metric

    if name == EVERY:
        return "all metrics, the least of them"
    try:
        return metric(name).label
    except InputError:
        return name
