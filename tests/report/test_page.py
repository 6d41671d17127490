"""The page: everything is escaped, data for the script cannot end their element, colours can be read."""

from __future__ import annotations

import itertools
import json
import re
from html.parser import HTMLParser

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hydra_dse.report.page import asset, embedded, page_of
from hydra_dse.report.page_tables import table_html
from hydra_dse.report.records import Table

from .samples import report

VOID = {"meta"}


class Tree(HTMLParser):
    """Checks that tags nest, and collects tags and text."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self._open: list[str] = []
        self.feed(html)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self._open.append(tag)

    def handle_endtag(self, tag):
        assert self._open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)

    def all(self, tag):
        return [attributes for name, attributes in self.tags if name == tag]


@settings(max_examples=15, deadline=None)
@given(
    st.text(
        st.characters(exclude_characters="\n\r\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029", codec="utf-8"),
        min_size=1,
        max_size=40,
    )
)
def test_any_text_is_text_wherever_it_stands(text):
    tree, plain = Tree(page_of(report(text))), Tree(page_of(report("a" * len(text))))
    assert [tag for tag, _ in tree.tags] == [tag for tag, _ in plain.tags]
    assert [set(attributes) for _, attributes in tree.tags] == [set(attributes) for _, attributes in plain.tags]


@given(st.lists(st.text(max_size=20), max_size=3))
def test_embedded_data_read_back_and_cannot_end_their_element(value):
    text = embedded(["</script><!--", value])
    assert not set("<>&") & set(text)
    assert json.loads(text) == ["</script><!--", value]


def test_a_page_loads_nothing_and_runs_only_its_own_script():
    html = page_of(report("a"))
    tree = Tree(html)
    assert {"script", "style"} <= {tag for tag, _ in tree.tags}
    assert len(tree.all("script")) == 2 and tree.all("script")[0]["type"] == "application/json"
    assert not {"link", "iframe", "img", "object", "base"} & {tag for tag, _ in tree.tags}
    sources = [value for _, a in tree.tags for name, value in a.items() if name in ("src", "href")]
    assert all(value.startswith("#") for value in sources)
    assert not [name for _, a in tree.tags for name in a if name.startswith("on") or name == "style"]
    assert "innerHTML" not in asset("report.js") and "eval" not in asset("report.js")


def test_landmarks_headings_captions_and_scopes_are_in_order():
    tree = Tree(page_of(report("a")))
    tags = [tag for tag, _ in tree.tags]
    assert [tags.count(tag) for tag in ("header", "nav", "main", "h1")] == [1, 1, 1, 1]
    levels = [int(tag[1]) for tag in tags if re.fullmatch("h[1-6]", tag)]
    assert levels[0] == 1 and all(after - before <= 1 for before, after in itertools.pairwise(levels))
    assert tags.count("caption") == tags.count("table")
    assert all(a.get("scope") in ("col", "row", "rowgroup") for a in tree.all("th"))
    ids = [a["id"] for _, a in tree.tags if "id" in a]
    assert len(ids) == len(set(ids))
    named = {a["aria-labelledby"] for _, a in tree.tags if "aria-labelledby" in a}
    assert named <= set(ids)
    assert [a["aria-live"] for _, a in tree.tags if "aria-live" in a] == ["polite"]


def test_a_section_without_data_is_named_with_the_reason():
    tree = Tree(page_of(report("a")))
    assert "none a: a." in tree.texts
    assert "none a" not in tree.texts


def test_a_first_cell_that_repeats_spans_its_rows():
    table = Table("c", ["design", "metric"], [["a", "1"], ["a", "2"], ["b", "3"], ["a", "4"]])
    tree = Tree(table_html(table, "t"))
    assert [a.get("rowspan") for a in tree.all("th") if a["scope"] != "col"] == ["2", None, None]
    assert len(tree.all("td")) == 4


def test_a_line_break_sets_the_rest_small():
    html = table_html(Table("c", ["a\n<s>"], [["1\n2–3"]], 0), "t")
    assert "<small>&lt;s&gt;</small>" in html and "1<small>2–3</small>" in html


def test_cells_of_designs_carry_what_they_are_sorted_by():
    table = Table("c", ["d", "x", "y"], [["a", "1.50", "n/a"]], designs=["a"], order=[["", 1.5, None]])
    assert [a.get("data-order") for a in Tree(table_html(table, "t")).all("td")] == ["1.5", ""]


def themes():
    """Variables of the style sheet by theme: light, dark by the system, dark by choice, print."""
    css = asset("report.css")
    blocks = re.findall(r"\{([^{}]*--ink:[^{}]*)\}", css)
    return [dict(re.findall(r"--(\w+):\s*(#[0-9a-f]{6})", block)) for block in blocks]


def contrast(one: str, other: str) -> float:
    """Contrast ratio of two colours (WCAG 2.2, relative luminance)."""

    def luminance(colour: str) -> float:
        parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
        r, g, b = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
        return 0.2126 * r + 0.7152 * g + 0.0722 * b

    high, low = sorted((luminance(one), luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def test_contrast_of_black_on_white_is_21():
    assert contrast("#000000", "#ffffff") == pytest.approx(21.0)


def test_both_dark_themes_are_the_same():
    assert len(themes()) == 4
    assert themes()[1] == themes()[2]


@pytest.mark.parametrize("theme", range(4), ids=["light", "dark", "dark by choice", "print"])
def test_texts_and_drawings_have_enough_contrast(theme):
    colours = themes()[theme]
    for text in ("ink", "muted", "accent"):
        for ground in ("paper", "soft", "chosen"):
            assert contrast(colours[text], colours[ground]) >= 4.5, (text, ground)
    for name in ("focus", *(f"c{place}" for place in range(8))):  # what is drawn: WCAG 1.4.11
        assert contrast(colours[name], colours["paper"]) >= 3.0, name


def test_text_on_a_strongly_shaded_cell_can_be_read():
    from hydra_dse.report.screen.draw_others import _STRONGEST

    for colours in themes():
        mixed = [
            round(
                _STRONGEST * int(colours["c0"][at : at + 2], 16)
                + (1 - _STRONGEST) * int(colours["paper"][at : at + 2], 16)
            )
            for at in (1, 3, 5)
        ]
        assert contrast(colours["ink"], "#" + "".join(f"{part:02x}" for part in mixed)) >= 4.5
