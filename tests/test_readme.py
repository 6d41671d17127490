"""The README's commands exist with the options they are shown with, and its short ones and its Python run."""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path

import click
import pytest

from hydra_dse.cli.app import app
from hydra_dse.cli.listing import KINDS

ROOT = Path(__file__).resolve().parents[1]
TEXT = (ROOT / "README.md").read_text()
QUICK = {"list", "check", "model", "estimate"}


def code_lines() -> list[str]:
    """Lines of fenced and indented code blocks, without a prompt; a line that ends in a backslash goes on."""
    fenced = re.findall(r"^```\w*\n(.*?)^```", TEXT, flags=re.DOTALL | re.MULTILINE)
    outside = re.sub(r"^```\w*\n.*?^```", "", TEXT, flags=re.DOTALL | re.MULTILINE)
    indented = re.findall(r"^ {4}(.*)$", outside, flags=re.MULTILINE)
    text = "\n".join([*fenced, *indented]).replace("\\\n", " ")
    return [line.strip().removeprefix("$ ").split("  #")[0].strip() for line in text.splitlines()]


BLOCKS = [line for line in code_lines() if line.startswith("hydra-dse ")]
INLINE = re.findall(r"`(hydra-dse [a-z][^`]*)`", TEXT)
PYTHON = re.findall(r"^```python\n(.*?)^```", TEXT, flags=re.DOTALL | re.MULTILINE)


def parsed(words: list[str]) -> tuple[list[str], click.Context]:
    """The command that the words name, with its options and arguments read but not run."""
    command: click.Command = app
    context = click.Context(app, info_name="hydra-dse", help_option_names=["-h", "--help"])
    names = []
    while isinstance(command, click.Group):
        name, found, words = command.resolve_command(context, words)
        assert name is not None and found is not None
        names.append(name)
        command = found
        if not isinstance(command, click.Group):
            context = command.make_context(name, list(words), parent=context)
        else:
            context = click.Context(command, parent=context, info_name=name)
    return names, context


def test_the_readme_shows_commands():
    assert BLOCKS and INLINE


@pytest.mark.parametrize("line", dict.fromkeys([*BLOCKS, *INLINE]))
def test_a_command_of_the_readme_exists_with_its_options(line):
    names, _ = parsed(shlex.split(line)[1:])
    assert names


def test_the_check_of_commands_can_fail():
    with pytest.raises(click.UsageError, match="did you mean 'sweep'"):
        parsed(["swep", "quickstart"])
    with pytest.raises(click.UsageError, match="No such option"):
        parsed(["sweep", "quickstart", "--trails", "3"])


def runnable(line: str) -> bool:
    """Whether a command is quick, and names nothing that a reader must bring."""
    words = shlex.split(line)[1:]
    return words[0] in QUICK and not any(re.search(r"[A-Z]{2,}|…|/|\.csv|\.json|\[", word) for word in words[1:])


@pytest.mark.parametrize("line", [line for line in dict.fromkeys([*BLOCKS, *INLINE]) if runnable(line)])
def test_a_short_command_of_the_readme_runs(line, tmp_path, monkeypatch):
    from hydra_dse.cli import main

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", shlex.split(line))
    with pytest.raises(SystemExit) as ended:
        main()
    assert not ended.value.code


@pytest.mark.parametrize("line", [line for line in code_lines() if line.startswith("make ")])
def test_a_make_target_of_the_readme_exists(line):
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE)
    assert line.split()[1] in targets


@pytest.mark.slow
@pytest.mark.parametrize("block", PYTHON)
def test_the_python_of_the_readme_runs(block, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    exec(compile(block, "README.md", "exec"), {"__name__": "readme"})
    printed = capsys.readouterr().out
    assert [float(word) for word in printed.split()], printed


def test_every_command_of_the_table_is_a_command_and_every_command_is_in_the_table():
    rows = re.findall(r"^\| `hydra-dse ([a-z]+)", TEXT, flags=re.MULTILINE)
    assert set(rows) == set(app.list_commands(click.Context(app)))


def test_what_is_listed_in_the_readme_can_be_listed():
    row = next(line for line in TEXT.splitlines() if "`hydra-dse list" in line)
    assert all(word in KINDS or word == "dies" for word in re.findall(r"[a-z]+", row.split("bundled")[1]))


def test_files_that_the_readme_names_are_there():
    names = set(re.findall(r"`((?:docs|experiments|workloads|search_spaces|benchmarks)/[\w./-]+)`", TEXT))
    assert names
    assert [name for name in sorted(names) if not (ROOT / name).exists()] == []
