"""The documentation says what the code does: generated pages are current, commands parse and run, links exist."""

from __future__ import annotations

import dataclasses
import importlib.util
import re
import shlex
import subprocess
import sys
from fnmatch import fnmatch
from pathlib import Path
from types import ModuleType

import click
import pytest
from click.testing import CliRunner

from hydra_dse.cli.app import app
from hydra_dse.errors import InputError

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
PAGES = sorted(path for path in DOCS.rglob("*.md") if "_build" not in path.parts)
HOW_TO = sorted((DOCS / "how-to").glob("*.md"))
# Files that a page takes from another one, whose first step is to write them.
BORROWED = {"own-space.md": ("own-die.md",)}


def loaded_generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("generate_reference", DOCS / "generate_reference.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(DOCS))  # as for the script: its pages are modules beside it
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(DOCS))
    return module


GENERATOR = loaded_generator()


def blocks(page: Path, language: str) -> list[str]:
    text = page.read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.DOTALL | re.MULTILINE)


def commands(page: Path) -> list[list[str]]:
    lines = [line for block in blocks(page, "bash") for line in block.replace("\\\n", " ").splitlines()]
    return [shlex.split(line, comments=True) for line in lines if line.strip()]


def captioned(page: Path) -> dict[str, str]:
    text = page.read_text(encoding="utf-8")
    found = re.findall(r"^```\{code-block\} \w+\n:caption: (\S+)\n\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    return dict(found)


def parsed(words: list[str]) -> None:
    """Let click parse a command without running it."""
    assert words[0] == "hydra-dse", f"{words[0]!r} is not a command of this project"
    group: click.Command = app
    # The names of the help option come from the application; a command keeps those it is first parsed with.
    context, rest = click.Context(app, help_option_names=["-h", "--help"]), words[1:]
    while isinstance(group, click.Group):
        found = group.get_command(context, rest[0])
        assert found is not None, f"no command {rest[0]!r}"
        group, rest = found, rest[1:]
    group.make_context(group.name, list(rest), parent=context)


def test_pages_are_found() -> None:
    assert len(PAGES) > 15
    assert all(commands(page) for page in HOW_TO)


@pytest.mark.parametrize("name", GENERATOR.PAGES)
def test_a_generated_page_is_what_the_code_says_now(name: str) -> None:
    current = (DOCS / name).read_text(encoding="utf-8")
    assert current == GENERATOR.PAGES[name](), "run `python docs/generate_reference.py`"


SECTIONS: list[type] = [section for group in GENERATOR.FILES.values() for section in group]


@pytest.fixture(scope="module")
def texts() -> dict[str, dict[str, str]]:
    """What the documentation says of every key; read once, for the file is long."""
    found: dict[str, dict[str, str]] = GENERATOR.meanings()
    return found


@pytest.mark.parametrize("section", SECTIONS, ids=lambda section: section.__name__)
def test_every_key_of_a_section_has_a_meaning(section: type, texts: dict[str, dict[str, str]]) -> None:
    missing = [key for key in GENERATOR.keys_of(section) if not GENERATOR.documented(section, key, texts)]
    assert not missing, f"add them to docs/meanings.yaml: {missing}"


def test_no_meaning_is_left_of_a_key_that_is_gone(texts: dict[str, dict[str, str]]) -> None:
    known: dict[str, set[str]] = {}
    for section in SECTIONS:
        for base in section.__mro__:
            known.setdefault(base.__name__, set()).update(GENERATOR.keys_of(section))
    gone = [f"{name}.{key}" for name, keys in texts.items() for key in keys if key not in known.get(name, set())]
    assert not gone


def test_every_section_that_a_file_can_hold_is_on_the_page() -> None:
    from hydra_dse.config import design_schema, experiment_schema, hardware_schema, lengths_schema, prefix_schema
    from hydra_dse.config import space_schema as space
    from hydra_dse.config import workload_schema as workload
    from hydra_dse.config.fields import Section

    modules = (design_schema, experiment_schema, hardware_schema, lengths_schema, prefix_schema, space, workload)
    declared = {
        item
        for module in modules
        for item in vars(module).values()
        if isinstance(item, type) and issubclass(item, Section) and item is not Section
    }
    shown = set(SECTIONS)
    absent = [item.__name__ for item in declared - shown if not item.__name__.startswith("_")]
    assert not absent


@pytest.mark.parametrize("kind", GENERATOR.EXPLAINED, ids=lambda kind: kind.__name__)
def test_every_key_of_an_explanation_has_a_meaning(kind: type) -> None:
    _, meaning = GENERATOR.attributes_of(kind)
    assert list(meaning) == [field.name for field in dataclasses.fields(kind)]


def test_every_command_is_on_its_page() -> None:
    page = (DOCS / "reference/cli.md").read_text(encoding="utf-8")
    assert all(f"## hydra-dse {name}" in page for name in app.list_commands(click.Context(app)))


@pytest.mark.parametrize(
    "words",
    [pytest.param(words, id=f"{page.stem}: {' '.join(words)[:60]}") for page in PAGES for words in commands(page)],
)
def test_a_command_of_the_documentation_parses(words: list[str]) -> None:
    parsed(words)


def test_a_wrong_option_in_the_documentation_would_be_noticed() -> None:
    with pytest.raises(click.UsageError):
        parsed(["hydra-dse", "sweep", "quickstart", "--trails", "5"])


@pytest.mark.slow
@pytest.mark.parametrize("page", HOW_TO, ids=lambda page: page.stem)
def test_the_commands_of_a_how_to_run_on_its_files(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for source in (*(page.parent / name for name in BORROWED.get(page.name, ())), page):
        for name, text in captioned(source).items():
            Path(name).write_text(text, encoding="utf-8")
    for words in commands(page):
        try:
            result = CliRunner().invoke(app, words[1:], catch_exceptions=False)
        except InputError as error:
            pytest.fail(f"{' '.join(words)}: {error}")
        assert result.exit_code == 0, f"{' '.join(words)}: {result.output}"
        assert result.output.strip()


LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(DOCS)))
def test_internal_links_of_a_page_exist(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    broken = []
    for target in LINK.findall(re.sub(r"`[^`\n]*`", "", text)):
        if re.match(r"[a-z]+:", target):
            continue
        file, _, anchor = target.partition("#")
        there = (page.parent / file).resolve() if file else page
        if not there.is_file() or (anchor and f"({anchor})=" not in there.read_text(encoding="utf-8")):
            broken.append(target)
    assert not broken


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(DOCS)))
def test_files_of_the_project_that_a_page_names_exist(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    folders = "hydra_dse|simulators|tests|workloads|search_spaces|experiments|benchmarks|docs"
    named = re.findall(rf"`((?:{folders})/[\w./*-]*)`", text)
    missing = [name for name in named if not any(ROOT.glob(name.rstrip("/")))]
    assert not missing


def test_pages_that_docstrings_refer_to_exist() -> None:
    named = {
        name
        for folder in ("hydra_dse", "simulators", "tests", "benchmarks")
        for file in (ROOT / folder).rglob("*.py")
        for name in re.findall(r"\bdocs/[\w/-]+\.md\b", file.read_text(encoding="utf-8"))
    }
    assert "docs/concepts/cost-model.md" in named
    assert not [name for name in sorted(named) if not (ROOT / name).is_file()]


def test_every_page_is_in_the_table_of_contents() -> None:
    index = (DOCS / "index.md").read_text(encoding="utf-8")
    trees = re.findall(r"```\{toctree\}\n(.*?)```", index, re.DOTALL)
    listed = {line for tree in trees for line in tree.split()}
    pages = {str(page.relative_to(DOCS).with_suffix("")) for page in PAGES} - {"index"}
    missing = [page for page in sorted(pages) if not any(_matches(page, pattern) for pattern in listed)]
    assert not missing


def _matches(page: str, pattern: str) -> bool:
    """Whether a pattern of a table of contents takes a page in: a star does not pass a slash."""
    return page.count("/") == pattern.count("/") and fnmatch(page, pattern)


@pytest.mark.slow
@pytest.mark.skipif(
    any(importlib.util.find_spec(name) is None for name in ("sphinx", "myst_parser", "furo")),
    reason="needs the extra `docs` (make docs)",
)
def test_the_documentation_builds_without_a_warning(tmp_path: Path) -> None:
    options = ["-q", "-W", "--keep-going", "-b", "dummy", "-d", str(tmp_path / "trees")]
    command = [sys.executable, "-m", "sphinx", *options, str(DOCS), str(tmp_path / "out")]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
