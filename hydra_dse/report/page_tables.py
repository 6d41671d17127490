"""Tables of a page: escaped texts, a caption, headings with their scope."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

from hydra_dse.report.charts import Plot
from hydra_dse.report.records import Table
from hydra_dse.results.text import number

MOST_DATA_ROWS = 60


def table_html(table: Table, anchor: str) -> str:
    """The table in a frame that scrolls and can be reached by keyboard."""
    last = len(table.columns) - 1 if table.wrap_last else -1
    head = "".join(
        _heading(column, place < table.text_columns or place == last) for place, column in enumerate(table.columns)
    )
    body = _rows_of_designs(table) if table.designs else _plain_rows(table)
    kind = ' class="designs"' if table.designs else ""
    tall = " tall" if len(table.rows) > 24 else ""
    return (
        f'<div class="scroll{tall}" tabindex="0" role="region" aria-labelledby="{anchor}"><table{kind}>'
        f'<caption id="{anchor}">{escape(table.caption)}</caption><thead><tr>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )


def data_table(plot: Plot) -> str:
    """The data of a plot, for those who cannot see it; all rows stand in its CSV file."""
    rows = plot.rows[:MOST_DATA_ROWS]
    head = "".join(_heading(column, False) for column in plot.columns)
    body = "".join(f"<tr>{''.join(f'<td>{_lines(_text(cell))}</td>' for cell in row)}</tr>" for row in rows)
    more = f"the first {len(rows)} of {len(plot.rows)} rows; all " if len(rows) < len(plot.rows) else "also "
    return (
        f"<details><summary>Data of this figure</summary>"
        f'<div class="scroll" tabindex="0" role="region" aria-label="Data: {escape(plot.title)}"><table>'
        f"<caption>{escape(plot.title)} ({more}in plots/{escape(plot.stem)}.csv)</caption>"
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div></details>"
    )


def _text(cell: object) -> str:
    if isinstance(cell, float):
        return "" if math.isnan(cell) else number(float(cell), 5)
    return str(cell)


def _plain_rows(table: Table) -> str:
    return "".join(
        f"<tr>{first}{_cells(row[1:], table.text_columns - 1, table.wrap_last)}</tr>" for first, row in _spanned(table)
    )


def _rows_of_designs(table: Table) -> str:
    parts = []
    for place, (design, row) in enumerate(zip(table.designs, table.rows, strict=True)):
        keys = table.order[place] if table.order else [""] * len(row)
        cells = [
            f"<td{_class('text' if column < table.text_columns else '')}{_order(key)}>{_lines(cell)}</td>"
            for column, (cell, key) in enumerate(zip(row[1:], keys[1:], strict=True), 1)
        ]
        first = f'<th scope="row" class="text">{_lines(row[0])}</th>'
        parts.append(f'<tr data-design="{escape(design)}">{first}{"".join(cells)}</tr>')
    return "".join(parts)


def _order(key: object) -> str:
    """What a script sorts the cell by; the empty text says that a number is missing, nothing that the text will do."""
    if key == "":
        return ""
    missing = key is None or (isinstance(key, float) and math.isnan(key))
    value = "" if missing else repr(float(key)) if isinstance(key, float) else str(key)
    return f' data-order="{escape(value)}"'


def _cells(row: Sequence[str], text_columns: int, wrap_last: bool) -> str:
    kinds = ["text" if place < text_columns else "" for place in range(len(row))]
    if wrap_last and kinds:
        kinds[-1] = f"{kinds[-1]} text wrap".strip()
    return "".join(f"<td{_class(kind)}>{_lines(cell)}</td>" for cell, kind in zip(row, kinds, strict=True))


def _heading(text: str, is_text: bool) -> str:
    return f'<th scope="col"{_class("text" if is_text else "")}>{_lines(text)}</th>'


def _spanned(table: Table) -> list[tuple[str, Sequence[str]]]:
    """Each row with its first cell as HTML: empty where the cell above spans it."""
    kept = list(table.rows)
    kind = _class("text" if table.text_columns else "")
    found: list[tuple[str, Sequence[str]]] = []
    for place, row in enumerate(kept):
        if place and kept[place - 1][0] == row[0]:
            found.append(("", row))
            continue
        same = next((after for after in range(place + 1, len(kept)) if kept[after][0] != row[0]), len(kept)) - place
        span = f' rowspan="{same}"' if same > 1 else ""
        if table.text_columns:
            scope = "rowgroup" if same > 1 else "row"
            found.append((f'<th scope="{scope}"{kind}{span}>{_lines(row[0])}</th>', row))
        else:
            found.append((f"<td{span}>{_lines(row[0])}</td>", row))
    return found


def _class(name: str) -> str:
    return f' class="{name}"' if name else ""


def _lines(text: str) -> str:
    first, *rest = text.split("\n")
    return escape(first) + "".join(f"<small>{escape(line)}</small>" for line in rest if line)
