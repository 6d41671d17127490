"""A small HTML builder: everything that enters a page is escaped here, in one place."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Sequence
from html import escape

_STYLE = """
:root { color-scheme: light dark; --ink: #1a1a1a; --paper: #fff; --rule: #d4d4d4; --soft: #f4f4f4;
        --muted: #5c5c5c; --accent: #0066a1; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e8e8e8; --paper: #16181c; --rule: #3c4048; --soft: #22252b; --muted: #a8adb5; --accent: #6cb8ea; }
}
body { font: 16px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); margin: 0 auto;
       max-width: 78rem; padding: 1rem 1.5rem 4rem; }
h1, h2 { line-height: 1.2; } h2 { margin-top: 2.5rem; border-bottom: 1px solid var(--rule); padding-bottom: .2rem; }
h1 + p { color: var(--muted); margin-top: -.5rem; }
nav a { margin-right: 1rem; } a { color: var(--accent); }
p { max-width: 50rem; }
.scroll { overflow-x: auto; margin: 1rem 0; }
table { border-collapse: collapse; font-size: .88rem; font-variant-numeric: tabular-nums; }
caption { text-align: left; font-weight: 600; padding: .3rem 0; }
th, td { padding: .25rem .6rem; text-align: right; white-space: nowrap; vertical-align: top; }
tbody tr { border-bottom: 1px solid var(--rule); }
th { background: var(--soft); vertical-align: bottom; }
th small, td small { display: block; font-weight: 400; font-size: .8rem; color: var(--muted); }
td.text, th.text { text-align: left; } td.wrap { white-space: normal; overflow-wrap: anywhere; }
.figures { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(26rem, 100%), 1fr)); gap: 1.5rem; }
figure { margin: 0; } figcaption { font-size: .88rem; color: var(--muted); padding-top: .3rem; }
figure img { width: 100%; max-width: 38rem; height: auto; background: #fff; border-radius: 6px; }
@media print { nav { display: none; } body { max-width: none; } h2 { break-after: avoid; }
  figure, tr { break-inside: avoid; } }
"""


class Page:
    """Sections of one self-contained page, in order."""

    def __init__(self, title: str, subtitle: str = "") -> None:
        self._title, self._subtitle = title, subtitle
        self._sections: list[tuple[str, str]] = []
        self._body: list[str] = []

    def section(self, heading: str) -> None:
        """Start a section."""
        anchor = f"section-{len(self._sections) + 1}"
        self._sections.append((anchor, heading))
        self._body.append(f'<h2 id="{anchor}">{escape(heading)}</h2>')

    def paragraph(self, text: str) -> None:
        """Add a paragraph of plain text."""
        self._body.append(f"<p>{escape(text)}</p>")

    def table(
        self,
        caption: str,
        columns: Sequence[str],
        rows: Iterable[Sequence[str]],
        text_columns: int = 1,
        wrap_last: bool = False,
    ) -> None:
        """Add a table of strings; the first `text_columns` columns are text, the others numbers.

        What follows a line break in a heading or cell (a unit, an interval) is set small below the rest; a first
        cell that repeats the one above it spans both rows; `wrap_last` is for a last column of long words.
        """
        head = "".join(_heading(column, index < text_columns) for index, column in enumerate(columns))
        body = "".join(
            f"<tr>{first}{self._cells(row[1:], text_columns - 1, wrap_last)}</tr>" for first, row in _spanned(rows)
        )
        self._body.append(
            f'<div class="scroll" tabindex="0" role="region" aria-label="{escape(caption)}"><table>'
            f"<caption>{escape(caption)}</caption><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
        )

    @staticmethod
    def _cells(row: Sequence[str], text_columns: int, wrap_last: bool) -> str:
        kinds = ["text" if index < text_columns else "" for index in range(len(row))]
        if wrap_last and kinds:
            kinds[-1] = f"{kinds[-1]} wrap".strip()
        return "".join(f"<td{_class(kind)}>{_lines(cell)}</td>" for cell, kind in zip(row, kinds, strict=True))

    def figures(self, images: Iterable[tuple[bytes, str]]) -> None:
        """Add PNG images side by side, each with its caption (which is its alternative text too)."""
        parts = []
        for png, caption in images:
            data = base64.b64encode(png).decode()
            parts.append(
                f'<figure><img alt="{escape(caption)}" src="data:image/png;base64,{data}">'
                f"<figcaption>{escape(caption)}</figcaption></figure>"
            )
        self._body.append(f'<div class="figures">{"".join(parts)}</div>')

    def html(self) -> str:
        """Return the page."""
        links = "".join(f'<a href="#{anchor}">{escape(heading)}</a>' for anchor, heading in self._sections)
        subtitle = f"<p>{escape(self._subtitle)}</p>" if self._subtitle else ""
        return (
            '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
            '<meta name="viewport" content="width=device-width, initial-scale=1">'
            '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; img-src data:; '
            "style-src 'unsafe-inline'\">"
            f"<title>{escape(self._title)}</title><style>{_STYLE}</style></head><body>"
            f'<h1>{escape(self._title)}</h1>{subtitle}<nav aria-label="Sections">{links}</nav><main>'
            f"{''.join(self._body)}</main></body></html>\n"
        )


def _heading(text: str, is_text: bool) -> str:
    return f'<th scope="col"{_class("text" if is_text else "")}>{_lines(text)}</th>'


def _spanned(rows: Iterable[Sequence[str]]) -> list[tuple[str, Sequence[str]]]:
    """Each row with its first cell as HTML: empty where the cell above spans it."""
    kept = list(rows)
    found: list[tuple[str, Sequence[str]]] = []
    for index, row in enumerate(kept):
        if index and kept[index - 1][0] == row[0]:
            found.append(("", row))
            continue
        same = next((after for after in range(index + 1, len(kept)) if kept[after][0] != row[0]), len(kept)) - index
        span = f' rowspan="{same}"' if same > 1 else ""
        found.append((f'<td class="text"{span}>{_lines(row[0])}</td>', row))
    return found


def _class(name: str) -> str:
    return f' class="{name}"' if name else ""


def _lines(text: str) -> str:
    first, *rest = text.split("\n")
    return escape(first) + "".join(f"<small>{escape(line)}</small>" for line in rest if line)
