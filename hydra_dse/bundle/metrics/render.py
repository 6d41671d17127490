"""A table of bundles as CSV and as one HTML page that sorts by a click, without anything from elsewhere."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from html import escape
from itertools import groupby

from hydra_dse.bundle.metrics.registry import metrics
from hydra_dse.bundle.metrics.table import Row, columns, reason


def to_csv(rows: Sequence[Row]) -> str:
    """One line a bundle: work, flags, metrics; why a metric that others have is missing stands in the last column."""
    names = columns(rows)
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(["work", "bundle", "path", "flags", *names, "missing"])
    for row in rows:
        values = [repr(row.measurement.values[name]) if name in row.measurement.values else "" for name in names]
        missing = "; ".join(f"{name}: {reason(row, name)}" for name in names if name not in row.measurement.values)
        writer.writerow([row.work, row.name, row.path, "; ".join(row.flags), *values, missing])
    return stream.getvalue()


_STYLE = """
body { font: 14px/1.4 system-ui, sans-serif; margin: 1.5em; color: #1a1a1a; background: #fff }
table { border-collapse: collapse } th, td { padding: .3em .6em; border-bottom: 1px solid #ddd; text-align: right }
th { cursor: pointer; position: sticky; top: 0; background: #fff; vertical-align: bottom }
th small { font-weight: normal; color: #555 } th[aria-sort=ascending]::after { content: " ▲" }
th[aria-sort=descending]::after { content: " ▼" } td:first-child, th:first-child { text-align: left }
td.missing { color: #767676; cursor: help } tr.work td { text-align: left; font-weight: 600; background: #f3f3f3 }
ul { margin: .2em 0; padding-left: 1.2em; text-align: left } .flag { color: #a00 }
"""
_SCRIPT = """
for (const head of document.querySelectorAll("th")) head.onclick = () => {
  const index = [...head.parentNode.children].indexOf(head);
  const down = head.getAttribute("aria-sort") === "ascending";
  for (const other of head.parentNode.children) other.removeAttribute("aria-sort");
  head.setAttribute("aria-sort", down ? "descending" : "ascending");
  for (const body of document.querySelectorAll("tbody")) {
    const rows = [...body.querySelectorAll("tr:not(.work)")];
    const value = row => { const text = row.children[index].dataset.value; return text === "" ? null : text };
    rows.sort((a, b) => {
      const x = value(a), y = value(b);
      if (x === null || y === null) return (x === null) - (y === null);
      const order = isNaN(x) || isNaN(y) ? x.localeCompare(y) : x - y;
      return down ? -order : order;
    });
    body.append(...rows);
  }
};
"""


def to_html(rows: Sequence[Row]) -> str:
    """One page: a body of the table for each kind of work; a click on a heading sorts within them."""
    names, known = columns(rows), metrics()
    heads = "".join(_head(name, rows, known[name.partition("@")[0]].definition) for name in names)
    bodies = "".join(_body(work, list(group), names) for work, group in groupby(rows, key=lambda row: row.work))
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>Bundles</title>'
        f"<style>{_STYLE}</style></head><body>\n<h1>{len(rows)} bundles</h1>\n"
        "<p>Rows under one heading did equal work; compare only those. A dash says why on hover.</p>\n"
        f"<table><thead><tr><th>bundle</th><th>flags</th>{heads}</tr></thead>\n{bodies}</table>\n"
        f"<script>{_SCRIPT}</script></body></html>\n"
    )


def _head(name: str, rows: Sequence[Row], definition: str) -> str:
    unit = next((row.measurement.units[name] for row in rows if name in row.measurement.units), "")
    return f'<th title="{escape(definition)}">{escape(name)}<br><small>{escape(unit)}</small></th>'


def _body(work: str, rows: Sequence[Row], names: Sequence[str]) -> str:
    lines = "".join(_line(row, names) for row in rows)
    return f'<tbody><tr class="work"><td colspan="{len(names) + 2}">{escape(work)}</td></tr>\n{lines}</tbody>\n'


def _line(row: Row, names: Sequence[str]) -> str:
    flags = "".join(f'<li class="flag">{escape(flag)}</li>' for flag in row.flags)
    listed = f"<ul>{flags}</ul>" if flags else ""
    cells = "".join(_cell(row, name) for name in names)
    title, key = escape(row.path), escape(row.name)
    first = f'<td data-value="{key}" title="{title}">{key}</td><td data-value="{len(row.flags)}">{listed}</td>'
    return f"<tr>{first}{cells}</tr>\n"


def _cell(row: Row, name: str) -> str:
    value = row.measurement.values.get(name)
    if value is None:
        return f'<td class="missing" data-value="" title="{escape(reason(row, name))}">–</td>'
    return f'<td data-value="{value!r}">{value:.5g}</td>'
