"""The page: a report's records as one HTML document that loads nothing.

Everything that enters the page is escaped here or in `screen.elements`; the data for the script are JSON in which `<`,
`>` and `&` are escaped, so that no text ends their element.  The policy of the page (CSP) lets only its own style sheet
and script run, by their digests.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from html import escape
from importlib.resources import files

from hydra_dse.report.charts import HeatMap, Package, Plot
from hydra_dse.report.page_tables import data_table, table_html
from hydra_dse.report.records import Detail, Report, Section
from hydra_dse.report.screen import inline_svg, is_wide

NEW_LINE = "\n"
WIDE_COLUMNS = 8
"""Columns of a heat map that stand beside another figure."""


def page_of(report: Report) -> str:
    """The page of a report."""
    style, script = asset("report.css"), asset("report.js")
    shown = [section for section in report.sections if not section.absent]
    anchors = {section.heading: f"section-{place}" for place, section in enumerate(shown, 1)}
    links = "".join(f'<li><a href="#{anchor}">{escape(name)}</a></li>' for name, anchor in anchors.items())
    labels = {detail.design: _label(detail, _objectives(report)) for detail in report.details}
    body = "".join(_section(section, anchors[section.heading], report, labels) for section in shown)
    subtitle = f"<p>{escape(report.subtitle)}</p>" if report.subtitle else ""
    title = escape(report.title)
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<meta http-equiv="Content-Security-Policy" content="{_policy(style, script)}">'
        f"<title>{title}</title><style>{style}</style></head><body>"
        f'<a class="skip" href="#main">Skip to the report</a><header><h1>{title}</h1>{subtitle}</header>'
        f'<nav aria-label="Sections"><ul>{links}</ul></nav><main id="main">{body}{_absent(report)}</main>'
        f'<script type="application/json" id="data">{embedded(_data(report))}</script><script>{script}</script>'
        "</body></html>\n"
    )


def asset(name: str) -> str:
    """A file of the package's `assets`."""
    return (files("hydra_dse.report") / "assets" / name).read_text(encoding="utf-8")


def embedded(value: object) -> str:
    """JSON that may stand inside a script element, whatever the texts in it."""
    text = json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _policy(style: str, script: str) -> str:
    def digest(text: str) -> str:
        return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()

    # base-uri and form-action are not covered by default-src.
    return (
        f"default-src 'none'; style-src '{digest(style)}'; script-src '{digest(script)}'; "
        "base-uri 'none'; form-action 'none'"
    )


def _objectives(report: Report) -> int:
    """How many of a detail's first metrics are read out."""
    return 2 if report.details else 0


def _label(detail: Detail, count: int) -> str:
    words = []
    for name, unit, estimate, simulated, _ in detail.metrics[:count]:
        words.append(f"{name} {estimate.split(NEW_LINE)[0]} {unit}".rstrip())
        if simulated:
            words[-1] += f" (simulated {simulated.split(NEW_LINE)[0]})"
    return f"{detail.title}; {', '.join(words)}" if words else detail.title


def _data(report: Report) -> Mapping[str, object]:
    designs = {
        detail.design: {
            "title": detail.title,
            "parameters": [list(pair) for pair in detail.parameters],
            "metrics": [list(row) for row in detail.metrics],
        }
        for detail in report.details
    }
    return {"designs": designs, "recommended": report.recommended, "objectives": _objectives(report)}


def _section(section: Section, anchor: str, report: Report, labels: Mapping[str, str]) -> str:
    parts = [f'<h2 id="{anchor}">{escape(section.heading)}</h2>']
    parts += [f"<p>{escape(text)}</p>" for text in section.paragraphs]
    tables = [table_html(table, f"{anchor}-table-{place}") for place, table in enumerate(section.tables, 1)]
    parts += [_choice(choice, f"{anchor}-{place}", place == 1) for place, choice in enumerate(section.choices, 1)]
    if section.explorer:
        side = f'<div class="explorer">{_figures(section.plots, labels)}{_panel(report)}</div>'
        parts += [side, *tables]
    else:
        parts += [f'<div class="tables">{"".join(tables)}</div>' if tables else "", _figures(section.plots, labels)]
    return f'<section aria-labelledby="{anchor}">{"".join(parts)}</section>'


def _choice(section: Section, anchor: str, first: bool) -> str:
    """One of several sections to open and close, without a script."""
    words = "".join(f"<p>{escape(text)}</p>" for text in section.paragraphs)
    tables = "".join(table_html(table, f"{anchor}-table-{place}") for place, table in enumerate(section.tables, 1))
    return (
        f'<details class="choice"{" open" if first else ""}><summary>{escape(section.heading)}</summary>{words}'
        f'<div class="tables">{tables}</div>{_figures(section.plots, {})}</details>'
    )


def _figures(plots: Sequence[Plot], labels: Mapping[str, str]) -> str:
    """Drawings side by side, each with its caption and the data behind it."""
    if not plots:
        return ""
    parts = [
        f'<figure id="plot-{escape(plot.stem)}"{_wide(plot)}><h3>{escape(plot.title)}</h3><div class="canvas">'
        f"{inline_svg(plot.chart, plot.title, labels)}</div><figcaption>{escape(plot.caption)}</figcaption>"
        f"{data_table(plot)}</figure>"
        for plot in plots
    ]
    return f'<div class="figures">{"".join(parts)}</div>'


def _wide(plot: Plot) -> str:
    """Large heat maps and packages take the width of the page, so that their texts can be read."""
    chart = plot.chart
    wide = isinstance(chart, HeatMap) and len(chart.columns) > WIDE_COLUMNS
    return ' class="wide"' if wide or (isinstance(chart, Package) and is_wide(chart)) else ""


def _panel(report: Report) -> str:
    """The details of the selected design; the recommended one until the reader selects another."""
    detail = next((item for item in report.details if item.design == report.recommended), None)
    if detail is None:
        return ""
    pairs = "".join(f"<div><dt>{escape(name)}</dt><dd>{escape(value)}</dd></div>" for name, value in detail.parameters)
    head = "".join(
        f'<th scope="col"{kind}>{name}</th>'
        for name, kind in (
            ("metric", ' class="text"'),
            ("unit", ' class="text"'),
            ("estimated", ""),
            ("simulated", ""),
            ("error", ""),
        )
    )
    return (
        '<div class="panel recommended" id="details" role="region" aria-labelledby="details-title">'
        f'<div aria-live="polite" aria-atomic="true"><h3 class="title" id="details-title">{escape(detail.title)}</h3>'
        f'<p class="said"></p></div><dl>{pairs}</dl><div class="scroll"><table><caption>Metrics of the selected design'
        f"</caption><thead><tr>{head}</tr></thead><tbody></tbody></table></div></div>"
    )


def _absent(report: Report) -> str:
    missing = [section for section in report.sections if section.absent]
    if not missing:
        return ""
    items = "".join(f"<li>{escape(section.heading)}: {escape(section.absent)}.</li>" for section in missing)
    return (
        '<section aria-labelledby="absent"><h2 id="absent">Not in this report</h2>'
        f'<ul class="absent">{items}</ul></section>'
    )
