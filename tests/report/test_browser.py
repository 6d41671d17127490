"""A real browser reads the page: no console messages, designs chosen by mouse and keyboard, sorted and filtered."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from hydra_dse.report.page import page_of

from .browser import CHROMIUM, Browser
from .conftest import HOSTILE
from .samples import report as sample

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed"),
]

CHOSEN = "[...document.querySelectorAll('tr[aria-selected=true]')].map(r => r.dataset.design)"
MARKED = "[...new Set([...document.querySelectorAll('.pick[aria-selected=true]')].map(p => p.dataset.design))]"
TITLE = "document.querySelector('#details .title').textContent"
FIRST_COLUMN = (
    "[...document.querySelector('table.designs').tBodies[0].rows].filter(r => !r.hidden).map(r => r.dataset.design)"
)


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    found = Browser(tmp_path_factory.mktemp("profile"))
    yield found
    found.close()


@pytest.fixture
def page(browser, report):
    browser.media()
    browser.size(1280, 900)
    browser.open(report)
    return browser


def designs(page) -> list[str]:
    return page.run(FIRST_COLUMN)


def test_a_page_loads_itself_alone_and_the_console_stays_silent(page, report):
    assert page.messages == []
    assert page.requests == [report.as_uri()]
    assert HOSTILE in page.run("document.body.innerText")
    assert page.run("document.querySelectorAll('body script').length") == 2


def test_the_browser_would_tell_of_foreign_scripts_and_pictures(browser, tmp_path):
    """The test above can fail: what is not the page's own is refused by its policy, and the console says so."""
    bad = "<script>document.title = 'ran'</script><img src='https://example.org/x.png'></main>"
    (tmp_path / "page.html").write_text(page_of(sample("t")).replace("</main>", bad))
    browser.open(tmp_path / "page.html")
    assert browser.run("document.title") == "t"
    assert sum("Content Security Policy" in message for message in browser.messages) == 2


def test_the_recommended_design_is_chosen_first(page):
    chosen = page.run(CHOSEN)
    assert len(chosen) == 1 and page.run(MARKED) == chosen
    assert page.run(TITLE).startswith(f"Design {chosen[0]}, recommended")


def test_a_click_on_a_point_fills_the_panel_and_marks_the_row(page):
    other = next(design for design in designs(page) if design not in page.run(CHOSEN))
    page.point(f"document.querySelector('.pick[data-design=\"{other}\"] .dot')", click=True)
    assert page.run(CHOSEN) == [other] == page.run(MARKED)
    assert other in page.run(TITLE)
    shown = page.run("document.querySelector('#details tbody').innerText")
    row = page.run(f"document.querySelector('tr[data-design=\"{other}\"]').innerText")
    assert re.findall(r"[\d,.]+", shown)[0] in row
    assert page.run("document.querySelector('#details .said').textContent").startswith("saturation ")


def test_hovering_shows_the_words_of_a_point(page):
    top = "[...document.querySelector('.points').children].at(-1)"  # the last drawn: nothing lies over it
    page.point(f"{top}.querySelector('.dot')")
    tip = "document.querySelector('.tip:not([hidden])')"
    assert page.run(f"{tip}.textContent") == page.run(f"{top}.getAttribute('aria-label')")


def test_the_keyboard_reaches_and_chooses_every_point_of_a_chart(page):
    page.run("document.querySelector('.points [tabindex=\"0\"]').focus()")
    count = page.run("document.querySelector('.points').querySelectorAll('.pick').length")
    seen = [page.run("document.activeElement.dataset.design")]
    for _ in range(count - 1):
        page.key("ArrowRight")
        seen.append(page.run("document.activeElement.dataset.design"))
    assert set(seen) == set(
        page.run("[...document.querySelectorAll('.points')[0].children].map(p => p.dataset.design)")
    )
    page.key("Home")
    page.key("Enter")
    assert page.run(CHOSEN) == [seen[0]]
    assert page.run("getComputedStyle(document.activeElement.querySelector('.target')).strokeWidth") == "2.5px"


FLOORPLAN = "document.querySelector('#plot-floorplan')"
FOCUSED = "document.activeElement.getAttribute('aria-label')"
TIP = "document.querySelector('.tip:not([hidden])')?.textContent ?? ''"


def test_the_keyboard_reaches_every_tile_and_shows_what_it_is(page):
    page.run(f"{FLOORPLAN}.querySelector('.marks [tabindex=\"0\"]').focus()")
    count = page.run(f"{FLOORPLAN}.querySelector('.marks').querySelectorAll('.mark').length")
    seen = [page.run(FOCUSED)]
    for _ in range(count - 1):
        page.key("ArrowRight")
        seen.append(page.run(FOCUSED))
        assert page.run(TIP) == seen[-1]
        ends = page.run(
            "(r => [r.top, r.bottom])(document.querySelector('.tip:not([hidden])').getBoundingClientRect())"
        )
        assert 0 <= ends[0] < ends[1] <= page.run("innerHeight")
    assert len(set(seen)) == count > 1 and all(" on slot " in words for words in seen)
    assert page.run("getComputedStyle(document.activeElement.querySelector('.tile')).strokeWidth") == "3px"
    page.key("Escape")
    assert page.run(TIP) == ""
    assert page.run(FOCUSED) == seen[-1]


def test_arrows_up_and_down_go_to_the_tile_above_and_below(page):
    page.run(f"{FLOORPLAN}.querySelector('.marks [tabindex=\"0\"]').focus()")
    place = "[document.activeElement.dataset.x, document.activeElement.dataset.y].map(Number)"
    start = page.run(place)
    page.key("ArrowDown")
    below = page.run(place)
    assert below[0] == start[0] and below[1] > start[1]
    page.key("ArrowUp")
    assert page.run(place) == start
    page.key("ArrowUp")  # nothing lies above
    assert page.run(place) == start


def test_a_group_of_marks_is_one_stop_of_the_tab_key(page):
    page.run(f"{FLOORPLAN}.querySelector('.marks [tabindex=\"0\"]').focus()")
    page.key("ArrowRight")
    page.key("Tab")
    group = "document.activeElement.closest('.marks').getAttribute('aria-label')"
    assert page.run(group) == "Links of: Floorplan and link loads"
    stops = "[...document.querySelectorAll('.marks')].map(g => g.querySelectorAll('[tabindex=\"0\"]').length)"
    assert set(page.run(stops)) == {1}


def test_hovering_a_bar_shows_its_values_and_escape_hides_them(page):
    page.point("document.querySelector('#plot-shares .mark')")
    words = page.run("document.querySelector('#plot-shares .mark').getAttribute('aria-label')")
    assert ": estimated 0." in words and page.run(TIP) == words
    page.key("Escape")
    assert page.run(TIP) == ""


def test_a_heading_sorts_both_ways_and_says_so(page):
    head = "document.querySelectorAll('table.designs thead th')[0]"
    names = designs(page)
    for order, wanted in (("ascending", sorted(names)), ("descending", sorted(names, reverse=True))):
        page.point(f"{head}.querySelector('button')", click=True)
        assert page.run(f"{head}.getAttribute('aria-sort')") == order
        assert designs(page) == wanted


def test_numbers_are_sorted_as_numbers(page):
    heads = "[...document.querySelectorAll('table.designs thead th')]"
    column = page.run(f"{heads}.findIndex(head => head.textContent.startsWith('saturation'))")
    page.point(f"{heads}[{column}].querySelector('button')", click=True)
    rows = "[...document.querySelector('table.designs').tBodies[0].rows]"
    values = page.run(f"{rows}.map(row => Number(row.cells[{column}].dataset.order))")
    assert len(values) > 1 and values == sorted(values)


def test_words_filter_the_table_and_the_count_is_told(page):
    names = designs(page)
    page.run("document.querySelector('.filter input').focus()")
    page.type(names[-1])
    assert designs(page) == [names[-1]]
    assert (
        page.run("document.querySelector('.filter [role=status]').textContent") == f" 1 of {len(names)} designs shown"
    )


@pytest.mark.parametrize(("scheme", "dark"), [("light", False), ("dark", True)])
def test_the_theme_follows_the_system_until_the_button_is_pressed(page, scheme, dark):
    ground = "getComputedStyle(document.body).backgroundColor"
    shades = {True: "rgb(22, 24, 28)", False: "rgb(255, 255, 255)"}
    page.media(prefers_color_scheme=scheme)
    assert page.run(ground) == shades[dark]
    page.point("document.querySelector('.theme')", click=True)
    assert page.run(ground) == shades[not dark]


@pytest.mark.parametrize("width", [1280, 390])
def test_nothing_is_wider_than_the_window(page, width):
    page.size(width, 900)
    assert page.run("document.documentElement.scrollWidth") <= width


def test_motion_is_left_out_where_the_reader_wants_none(page):
    behaviour = "getComputedStyle(document.documentElement).scrollBehavior"
    page.media(prefers_reduced_motion="reduce")
    assert page.run(behaviour) == "auto"
    page.media(prefers_reduced_motion="no-preference")
    assert page.run(behaviour) == "smooth"


def test_on_paper_colours_are_light_and_controls_are_left_out(page, tmp_path):
    page.media("print", prefers_color_scheme="dark")
    assert page.run("getComputedStyle(document.body).color") == "rgb(0, 0, 0)"
    hidden = "[...document.querySelectorAll('nav, .theme, .filter')].map(e => getComputedStyle(e).display)"
    assert set(page.run(hidden)) == {"none"}
    page.media()
    assert page.print(tmp_path / "page.pdf").read_bytes().startswith(b"%PDF")


def test_on_paper_no_table_is_wider_than_the_page_and_the_panel_stands_where_it_says_more(page):
    page.media("print")
    page.size(718, 1000)  # US Letter at 96 dots an inch, less margins of 12 mm
    assert page.run("document.documentElement.scrollWidth") <= 718
    panel = "getComputedStyle(document.querySelector('#details')).display"
    assert page.run(panel) == "none"
    page.media()
    page.size(1280, 900)
    other = next(design for design in designs(page) if design not in page.run(CHOSEN))
    page.point(f"document.querySelector('tr[data-design=\"{other}\"] button')", click=True)
    page.media("print")
    assert page.run(panel) == "block"


def test_a_screen_reader_finds_landmarks_charts_points_and_tables(page):
    found = page.accessible()
    roles = [role for role, _ in found]
    assert {"banner", "navigation", "main", "region", "listbox", "option", "table", "searchbox"} <= set(roles)
    assert all(name for role, name in found if role in ("option", "listbox", "region", "image", "button", "searchbox"))


def test_without_scripts_the_page_still_says_everything(browser, report, tmp_path):
    html = report.read_text()
    (tmp_path / "page.html").write_text(re.sub(r"script-src '[^']*'", "script-src 'none'", html))
    browser.open(tmp_path / "page.html")
    assert browser.run("document.querySelector('#details .title').textContent").startswith("Design ")
    assert browser.run("document.querySelectorAll('.filter, .theme').length") == 0
    assert browser.run("document.querySelectorAll('svg.drawing').length") >= 10


def test_a_picture_can_be_taken(page, tmp_path: Path):
    assert page.picture(tmp_path / "page.png").read_bytes().startswith(b"\x89PNG")
