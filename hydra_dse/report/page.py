"""A small HTML builder: everything that enters a page is escaped here, in one place."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Sequence
from html import escape

_STYLE = """
:root { color-scheme: light dark; --ink: #1a1a1a; --paper: #fff; --rule: #ccc; --soft: #f4f4f4; --accent: #0072b2; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e8e8e8; --paper: #16181c; --rule: #444; --soft: #22252b; --accent: #6cb8ea; }
  figure img { background: #fff; }
}
body { font: 16px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); margin: 0 auto;
       max-width: 72rem; padding: 1rem 1.5rem 4rem; }
h1, h2 { line-height: 1.2; } h2 { margin-top: 2.5rem; border-bottom: 1px solid var(--rule); }
nav a { margin-right: 1rem; } a { color: var(--accent); }
.scroll { overflow-x: auto; } table { border-collapse: collapse; font-size: .9rem; margin: 1rem 0; }
caption { text-align: left; font-weight: 600; padding: .3rem 0; }
th, td { padding: .25rem .6rem; border-bottom: 1px solid var(--rule); text-align: right; white-space: nowrap; }
th:first-child, td:first-child, td.text { text-align: left; } thead th { background: var(--soft); }
figure { margin: 1rem 0; } figure img { max-width: 100%; height: auto; } figcaption { font-size: .9rem; }
.figures { display: flex; flex-wrap: wrap; gap: 1rem; } .figures figure { flex: 1 1 26rem; max-width: 40rem; }
@media print { nav { display: none; } body { max-width: none; } h2 { break-after: avoid; }
  figure { break-inside: avoid; } }
"""


class Page:
    """Sections of one self-contained page, in order."""

    def __init__(self, title: str) -> None:
        self._title = title
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

    def table(self, caption: str, columns: Sequence[str], rows: Iterable[Sequence[str]], text_columns: int = 1) -> None:
        """Add a table of strings; the first `text_columns` columns are text, the others numbers."""
        head = "".join(f'<th scope="col">{escape(column)}</th>' for column in columns)
        body = "".join(f"<tr>{self._cells(row, text_columns)}</tr>" for row in rows)
        self._body.append(
            f'<div class="scroll" tabindex="0" role="region" aria-label="{escape(caption)}"><table>'
            f"<caption>{escape(caption)}</caption><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
        )

    @staticmethod
    def _cells(row: Sequence[str], text_columns: int) -> str:
        return "".join(_cell(cell, index < text_columns) for index, cell in enumerate(row))

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
        return (
            '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
            '<meta name="viewport" content="width=device-width, initial-scale=1">'
            '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; img-src data:; '
            "style-src 'unsafe-inline'\">"
            f"<title>{escape(self._title)}</title><style>{_STYLE}</style></head><body>"
            f'<h1>{escape(self._title)}</h1><nav aria-label="Sections">{links}</nav><main>'
            f"{''.join(self._body)}</main></body></html>\n"
        )


def _cell(text: str, is_text: bool) -> str:
    return f'<td class="text">{escape(text)}</td>' if is_text else f"<td>{escape(text)}</td>"
