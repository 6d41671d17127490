"""Sizes of modules and functions: what a reader can hold at once."""

from __future__ import annotations

import ast
import statistics
from collections.abc import Iterator
from pathlib import Path

import hydra_dse

ROOT = Path(hydra_dse.__file__).parents[1]
MOST_MODULE, MOST_FUNCTION, MEDIAN_FUNCTION = 300, 60, 11
LONG_FUNCTION = 40
"""Beyond it a function wants splitting; few may be."""
FEW = 0.01

# Modules that stay above `MOST_MODULE` lines, each with why; none beyond `HARD_MODULE`.
HARD_MODULE = 500
LARGER: dict[str, str] = {}


def _modules() -> dict[str, str]:
    found = {}
    for package in ("hydra_dse", "simulators"):
        for file in sorted((ROOT / package).rglob("*.py")):
            found[file.relative_to(ROOT).as_posix()] = file.read_text("utf-8")
    return found


def _functions() -> Iterator[tuple[str, ast.FunctionDef]]:
    for name, text in _modules().items():
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef):
                yield f"{name}:{node.lineno} {node.name}", node


def _lines(function: ast.FunctionDef) -> int:
    """Lines of a function without its docstring, which is for those who do not read the rest."""
    first = function.body[0]
    is_text = (
        isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str)
    )
    docstring = (first.end_lineno or 0) - first.lineno + 1 if is_text else 0
    return (function.end_lineno or 0) - function.lineno + 1 - docstring


def test_no_module_is_longer_than_300_lines_without_a_reason() -> None:
    lines = {name: text.count("\n") for name, text in _modules().items()}
    assert {name: n for name, n in lines.items() if n > MOST_MODULE and name not in LARGER} == {}
    assert {name: n for name, n in lines.items() if n > HARD_MODULE} == {}


def test_no_function_is_longer_than_60_lines_and_few_than_40() -> None:
    lines = {name: _lines(function) for name, function in _functions()}
    assert {name: n for name, n in lines.items() if n > MOST_FUNCTION} == {}
    long = [name for name, n in lines.items() if n > LONG_FUNCTION]
    assert len(long) <= FEW * len(lines), long


def test_half_of_all_functions_have_eleven_lines_at_most() -> None:
    assert statistics.median(_lines(function) for _, function in _functions()) <= MEDIAN_FUNCTION
