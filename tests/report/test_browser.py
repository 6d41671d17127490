"""A real browser reads the page: no console messages, every section there, nothing wider than the window."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from hydra_dse.report.page import Page

from .conftest import HOSTILE

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync", "--enable-logging=stderr",
    "--window-size=1280,900",
)  # fmt: skip

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed"),
]


def load(page: Path, profile: Path, *flags: str) -> tuple[str, list[str]]:
    """The document as the browser made it, and its console messages."""
    words = [str(CHROMIUM), *FLAGS, f"--user-data-dir={profile}", "--dump-dom", *flags, page.as_uri()]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout, [line for line in done.stderr.splitlines() if "CONSOLE" in line]


@pytest.mark.parametrize("flags", [(), ("--force-dark-mode",)], ids=["light", "dark"])
def test_a_browser_shows_every_section_and_has_nothing_to_complain_of(report, tmp_path, flags):
    document, messages = load(report, tmp_path / "profile", *flags)
    assert messages == []
    found = re.findall(r"<h2[^>]*>([^<]*)</h2>", document)
    assert [name for name in found if not name.startswith("Recommended design")] == [
        "Summary", "Figures", "Pareto front", "Validation", "Provenance",
    ]  # fmt: skip
    assert HOSTILE.replace("<", "&lt;").replace(">", "&gt;") in document
    assert document.count("<img") == len(list((report.parent / "plots").glob("*.png")))


def test_the_browser_would_tell_what_a_page_loads_from_elsewhere(tmp_path):
    """The test above can fail: a page with a script is refused by its own policy, and the console says so."""
    page = Page("t")
    html = page.html().replace("</main>", "<script>document.title = 'ran'</script></main>")
    (tmp_path / "page.html").write_text(html)
    document, messages = load(tmp_path / "page.html", tmp_path / "profile")
    assert "<title>t</title>" in document
    assert len(messages) == 1 and "Content Security Policy" in messages[0]
