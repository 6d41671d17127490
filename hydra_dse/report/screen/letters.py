"""How much room words take: an upper estimate for the common faces without serifs, the wide DejaVu Sans among them."""

from __future__ import annotations

SIZE = 12.0
"""Size of the drawings' text, in their units."""
_WIDTHS = (
    (frozenset(" ijlI.,:;'|!"), 3.9),
    (frozenset("frt()[]/-"), 4.7),
    (frozenset("mwMW%@±×→…"), 11.2),
)
_CAPITAL, _OTHER = 8.7, 7.5


def text_width(words: str, size: float = SIZE) -> float:
    """Width of words in the drawing's units."""
    return sum(map(_width, words)) * size / SIZE


def fitted(words: str, width: float, size: float = SIZE) -> str:
    """Words cut so that they take at most `width`; the whole of them stands in a table."""
    if text_width(words, size) <= width:
        return words
    kept = len(words) - 1
    while kept > 1 and text_width(words[:kept] + "…", size) > width:
        kept -= 1
    return words[:kept] + "…"


def _width(letter: str) -> float:
    for letters, width in _WIDTHS:
        if letter in letters:
            return width
    return _CAPITAL if letter.isupper() else _OTHER
