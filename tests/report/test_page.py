"""The page builder: everything is escaped, tables keep their shape."""

from __future__ import annotations

import base64
from html.parser import HTMLParser

from hypothesis import given
from hypothesis import strategies as st

from hydra_dse.report.page import Page

VOID = {"meta", "img"}


class Tree(HTMLParser):
    """Checks that tags nest, and collects tags and text."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self._open: list[str] = []
        self.feed(html)
        assert self._open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self._open.append(tag)

    def handle_endtag(self, tag):
        assert self._open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)


@given(st.text(max_size=40))
def test_any_text_is_text_wherever_it_stands(text):
    page = Page(text, text)
    page.section(text)
    page.paragraph(text)
    page.table(text, [text, "b"], [[text, text]])
    page.figures([(b"png", text)])
    tree = Tree(page.html())
    plain = Tree(_plain_page().html())
    assert [tag for tag, _ in tree.tags if tag not in ("p", "small")] == [
        tag for tag, _ in plain.tags if tag not in ("p", "small")
    ]


def _plain_page() -> Page:
    page = Page("a", "a")
    page.section("a")
    page.paragraph("a")
    page.table("a", ["a", "b"], [["a", "a"]])
    page.figures([(b"png", "a")])
    return page


def test_a_page_loads_nothing_from_elsewhere():
    page = _plain_page()
    tree = Tree(page.html())
    sources = [value for _, attributes in tree.tags for name, value in attributes.items() if name in ("src", "href")]
    assert sources == ["#section-1", "data:image/png;base64," + base64.b64encode(b"png").decode()]
    assert "default-src 'none'" in page.html()
    assert not {"script", "link", "iframe"} & {tag for tag, _ in tree.tags}


def test_every_image_has_an_alternative_text_and_every_heading_cell_a_scope():
    tree = Tree(_plain_page().html())
    assert all(attributes.get("alt") for tag, attributes in tree.tags if tag == "img")
    assert all(attributes.get("scope") == "col" for tag, attributes in tree.tags if tag == "th")


def test_a_first_cell_that_repeats_spans_its_rows():
    page = Page("t")
    page.table("c", ["design", "metric"], [["a", "1"], ["a", "2"], ["b", "3"], ["a", "4"]])
    tree = Tree(page.html())
    spans = [
        attributes.get("rowspan") for tag, attributes in tree.tags if tag == "td" and attributes.get("class") == "text"
    ]
    assert spans == ["2", None, None]
    assert sum(tag == "td" for tag, _ in tree.tags) == 3 + 4


def test_a_line_break_sets_the_rest_small():
    page = Page("t")
    page.table("c", ["a\n<s>"], [["1\n2–3"]], text_columns=0)
    assert "<small>&lt;s&gt;</small>" in page.html() and "1<small>2–3</small>" in page.html()
