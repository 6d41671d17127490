"""Pages of registries: metrics, metrics of traces, assumptions of the library, the error model."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import yaml

from hydra_dse.bundle.metrics import registry as trace_registry
from hydra_dse.bundle.reading.rules import RULES
from hydra_dse.config.library import KINDS, LIBRARY
from hydra_dse.estimator.intervals import ERRORS, LOADS
from hydra_dse.results import METRICS
from reference_pages.table import NOTE, table


def metrics_page() -> str:
    """The metric registry."""
    rows = [(f"`{m.name}`", m.unit, m.direction, m.definition, m.label) for m in METRICS.values()]
    return NOTE + METRICS_INTRODUCTION + table(("name", "unit", "better", "definition", "label"), rows)


METRICS_INTRODUCTION = """# Metrics

The names of every JSON, CSV, Parquet file and plot.  Units are part of the name; everything is SI except mm².
Times count from arrival, so that queueing is in them.  A value that cannot be computed is `null` or empty.
`utilization_<die group>` stands beside them for each die group of a design: the busy share of its dies (0 to 1).
Under a workload of several models `ttft_mean_s@nemotron-h-8b` and the like are those of the requests of one model.
Objectives may be all metrics with a better direction; constraints may name any.

"""


def trace_metrics_page() -> str:
    """The metrics of traces, and the fields that tools need of a trace."""
    rows = [
        (
            f"`{m.name}`", m.unit, m.category, m.direction, "yes" if m.original else "", m.definition,
            ", ".join(m.functions), m.missing or ", ".join(m.requires),
        )
        for m in trace_registry.own_metrics().values()
    ]  # fmt: skip
    fields = [(f"`{r.name}`", r.where, r.value, r.needed_by, r.applies) for r in RULES]
    head = ("name", "unit", "category", "better", "of CCL-Bench", "definition", "traces", "needs")
    fields_head = ("field", "where", "value", "needed by", "of traces")
    return NOTE + TRACE_INTRODUCTION + table(head, rows) + FIELDS_INTRODUCTION + table(fields_head, fields)


TRACE_INTRODUCTION = """# Metrics of traces

What `hydra-dse trace metrics` computes ([how](../concepts/traces.md)).  A metric of several things has a value for
each, `name@thing`.  Kinds of traces: Chrome/Kineto JSON of ranks (`json`), Nsight Systems exports (`nsys`), TPU
profiler JSON (`json_tpu`); `card` needs none.

"""
FIELDS_INTRODUCTION = """
## Fields that tools need

What `hydra-dse trace check` looks for.  Sources: CCL-Bench's tools at 1d257f0, and what viewers and replays assume.

"""


def assumptions_page() -> str:
    """Every figure of the hardware library that is marked an assumption, with its place."""
    parts = [NOTE, ASSUMPTIONS_INTRODUCTION]
    for kind in KINDS:
        rows = list(_comments(kind)) + list(_assumed(kind))
        parts.append(f"## {kind}\n\n" + table(("where", "assumption"), rows) + "\n")
    return "".join(parts)


ASSUMPTIONS_INTRODUCTION = """# Assumptions of the hardware library

What the library (`hydra_dse/library/*.yaml`) states without a published or measured source.  All other figures carry
their source in the field `source` beside them.  What the models themselves assume stands in the pages of the concepts.

"""


def _assumed(kind: str) -> Iterator[tuple[str, str]]:
    data = yaml.safe_load((LIBRARY / f"{kind}.yaml").read_text(encoding="utf-8"))
    for path, text in _sources(data):
        if text.startswith("Our reading:"):
            yield f"`{'.'.join(path)}`", _cell(text)
        elif "assumption:" in text:
            yield f"`{'.'.join(path)}`", _cell(text.split("assumption:", 1)[1])


def _sources(data: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], str]]:
    if isinstance(data, dict):
        for key, value in data.items():
            if key == "source":
                yield path, str(value)
            else:
                yield from _sources(value, (*path, str(key)))


def _comments(kind: str) -> Iterator[tuple[str, str]]:
    """Sentences of comments that hold for a whole file and call something an assumption."""
    lines = (LIBRARY / f"{kind}.yaml").read_text(encoding="utf-8").splitlines()
    said = " ".join(line.strip().removeprefix("#").strip() for line in lines if line.strip().startswith("#"))
    for sentence in re.split(r"(?<=\.) +(?=[A-Z`])", said):
        if "assumption" in sentence and "`assumption:`" not in sentence:
            yield "all", _cell(sentence)


def _cell(text: str) -> str:
    return " ".join(text.split()).rstrip(".") + "."


def error_page() -> str:
    """The estimator's own error by load, as its intervals use it."""
    head = (
        "metric",
        *(f"load {load:g}" for load in LOADS),
        "per unit of burstiness",
        "of dispersion",
        "full memory",
        "queueing",
    )
    rows = [
        (
            f"`{name}`",
            *(f"{error:.3g}" for error in model.at_loads),
            f"{model.per_burstiness:.3g}",
            f"{model.per_dispersion:.3g}",
            f"{model.full_memory:.3g}",
            "yes" if model.queueing else "no",
        )
        for name, model in ERRORS.items()
    ]
    return NOTE + ERROR_INTRODUCTION + (table(head, rows) if rows else NO_ERRORS)


ERROR_INTRODUCTION = """# Error model of the estimator

90th percentile of the relative error of an estimate by load, linear in between, what is added per unit of |c_a² − 1|
(of arrivals in phases per unit of the index of dispersion beyond 1), and what is added where the cache memory is full
(from nothing at 30 % in use to all of it at 70 %).  "Queueing" says whether an error of the operator times is amplified
by 1/(1 − load).  Measured on the tuning set of the [validation](../validation.md); loads that change in time have no
entries of their own.

"""
NO_ERRORS = "No metric has an entry in this version: estimates carry no interval.\n"
