"""Elements of an inline SVG drawing as text: every attribute and every text is escaped here."""

from __future__ import annotations

from html import escape

import numpy as np

from hydra_dse.report.charts import FloatArray

Attribute = str | float


def element(tag: str, content: str = "", /, **attributes: Attribute) -> str:
    """An element; underscores in attribute names become hyphens, `class_` is `class`; `content` is markup."""
    words = "".join(f' {_name(name)}="{_value(value)}"' for name, value in attributes.items())
    return f"<{tag}{words}>{content}</{tag}>" if content else f"<{tag}{words}/>"


def text(at: tuple[float, float], words: str, class_: str = "", anchor: str = "start", **more: Attribute) -> str:
    """A text at a place."""
    kind: dict[str, Attribute] = {"class_": class_} if class_ else {}
    return element("text", escape(words), x=at[0], y=at[1], text_anchor=anchor, **kind, **more)


def line(start: tuple[float, float], end: tuple[float, float], class_: str, **more: Attribute) -> str:
    """A straight line."""
    return element("line", x1=start[0], y1=start[1], x2=end[0], y2=end[1], class_=class_, **more)


def rectangle(x: float, y: float, width: float, height: float, class_: str, **more: Attribute) -> str:
    """A rectangle; a negative width becomes none."""
    return element("rect", x=x, y=y, width=max(width, 0.0), height=max(height, 0.0), class_=class_, **more)


def path(x: FloatArray, y: FloatArray, steps: bool = False) -> str:
    """The `d` of a line through places."""
    parts = []
    for index, (px, py) in enumerate(zip(x.tolist(), y.tolist(), strict=True)):
        if index and steps:
            parts.append(f"H{px:.1f}V{py:.1f}")
        else:
            parts.append(f"{'L' if index else 'M'}{px:.1f} {py:.1f}")
    return "".join(parts)


def dots(x: FloatArray, y: FloatArray) -> str:
    """The `d` of points drawn as ends of lines of no length: a few bytes each."""
    places = dict.fromkeys(f"M{px:.1f} {py:.1f}h0" for px, py in zip(x.tolist(), y.tolist(), strict=True))
    return "".join(places)


def shortened(words: str, most: int = 28) -> str:
    """A name that fits; the whole one stands in the table."""
    return words if len(words) <= most else words[: most - 1] + "…"


def finite(values: FloatArray | float) -> bool:
    """Whether all values are finite."""
    return bool(np.isfinite(values).all())


def _name(name: str) -> str:
    return "class" if name == "class_" else name.replace("_", "-") if name != "viewBox" else name


def _value(value: Attribute) -> str:
    if isinstance(value, str):
        return escape(value)
    return f"{value:.1f}".removesuffix(".0") if abs(value) >= 10 else f"{value:.3g}"
