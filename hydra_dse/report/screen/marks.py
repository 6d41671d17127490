"""Parts of a drawing that a reader may reach by mouse or keyboard, each with its words; the script shows the words.

Of a group one part is reached by the tab key, the others from there by the arrow keys.  Without a script the parts are
images with names for a screen reader, and the browser shows their titles.
"""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

from hydra_dse.report.screen.elements import element


def mark(content: str, words: str, order: int, at: tuple[float, float]) -> str:
    """A part that can be reached.

    Args:
        content: its drawing, as markup.
        words: what it is, as text.
        order: its place when the arrow keys go to the right or to the left.
        at: its middle, by which the arrow keys find the next one above or below.
    """
    place = {"data_order": f"{order}", "data_x": f"{at[0]:.0f}", "data_y": f"{at[1]:.0f}"}
    about = {"role": "img", "aria_label": words, "tabindex": "-1", "class_": "mark", **place}
    return element("g", element("title", escape(words)) + content, **about)


def marks(parts: Iterable[str], name: str) -> str:
    """A group of marks with its name; empty where there are none."""
    content = "".join(parts)
    return element("g", content, role="group", aria_label=name, class_="marks") if content else ""


def silent(content: str) -> str:
    """Words that the marks say already, left out for a screen reader and for the mouse."""
    return element("g", content, aria_hidden="true", class_="silent") if content else ""
