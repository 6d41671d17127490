"""What a comparison's directory keeps: the comparison itself, and the designs that were measured in it."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from hydra_dse.design.comparison import Comparison, Load
from hydra_dse.design.nouns import Design
from hydra_dse.errors import Fault, InputError, did_you_mean
from hydra_dse.studies.comparison.course import REFERENCE
from hydra_dse.studies.comparison.designs import Choice, choice_of, design_of
from hydra_dse.studies.comparison.runs import ANSWERS, COMPARISON, PROVENANCE, design_of_reference
from hydra_dse.studies.provenance import Provenance
from hydra_dse.workload import at_rate
from hydra_dse.workload.nouns import Workload

POINTS = "points.csv"


def is_comparison(run_dir: str | Path) -> bool:
    """Whether a directory is that of a comparison."""
    return (Path(run_dir) / COMPARISON).is_file()


def comparison_of(run_dir: str | Path) -> Comparison:
    """The comparison of a directory, as it was resolved.

    Raises:
        InputError: no comparison there, a corrupt one, or one whose inputs are gone.
    """
    from hydra_dse.config.comparisons import load_stored_comparison

    provenance = provenance_of_comparison(run_dir)
    return load_stored_comparison(Path(run_dir) / COMPARISON, tuple(provenance.inputs), design_of_reference)


def provenance_of_comparison(run_dir: str | Path) -> Provenance:
    """What made a comparison.

    Raises:
        InputError: no comparison there, or a corrupt one.
    """
    file = Path(run_dir) / PROVENANCE
    try:
        data = file.read_bytes()
    except OSError as error:
        message = f"not a comparison's directory, or a corrupt one: cannot be read ({error.strerror})"
        raise InputError(Fault(message, file=str(file))) from error
    return Provenance.from_json(data, str(file))


@dataclass(frozen=True)
class Chosen:
    """A design that a comparison chose.

    Attributes:
        load: number of the first load that it was chosen for.
    """

    choice: Choice
    load: int


def design_of_comparison(run_dir: str | Path, identity: str) -> Design:
    """Build the design `identity` that a comparison measured; its first digits are enough where they are unique.

    Raises:
        InputError: no such design there.
    """
    chosen = chosen_design(run_dir, identity)
    return design_of(comparison_of(run_dir), chosen.choice)


def workload_of_design(run_dir: str | Path, identity: str) -> Workload:
    """The load that a design was first chosen for, at the rate at which the comparison looks first.

    That is its primary fraction of the reference's highest rate, the same for all contenders; where the reference has
    none, the rate of the file.

    Raises:
        InputError: no such design there, or a table that is not readable.
    """
    chosen, comparison = chosen_design(run_dir, identity), comparison_of(run_dir)
    load = comparison.loads[chosen.load]
    rate = _primary_rate(Path(run_dir) / POINTS, comparison, load, chosen.choice.contender)
    return load.requests if rate is None else at_rate(load.requests, rate)


def _primary_rate(file: Path, comparison: Comparison, load: Load, contender: str) -> float | None:
    """Rate of the points of a contender at the primary fraction of the reference's highest rate."""
    try:
        rows = list(csv.DictReader(io.StringIO(file.read_text(encoding="utf-8"))))
        wanted = (load.model, load.workload, contender, REFERENCE, f"{comparison.primary:g}")
        names = ("model", "workload", "contender", "basis", "fraction")
        rates = [row["rate_requests_per_s"] for row in rows if tuple(row[name] for name in names) == wanted]
        return float(rates[0]) if rates else None
    except OSError:
        return None
    except (KeyError, ValueError, csv.Error) as error:
        raise InputError(Fault(f"not a readable table of points ({error})", file=str(file))) from error


def chosen_design(run_dir: str | Path, identity: str) -> Chosen:
    """The design that an id, or its first digits, names.

    Raises:
        InputError: none, or several.
    """
    choices = chosen_designs(Path(run_dir) / ANSWERS)
    found = [name for name in choices if identity and name.startswith(identity)]
    if len(found) != 1:
        wrong = "names several designs" if found else f"names no design{did_you_mean(identity, choices)}"
        raise InputError(Fault(f"{identity!r} {wrong} of this comparison", file=str(Path(run_dir) / "compare.csv")))
    return choices[found[0]]


def chosen_designs(answers: Path) -> Mapping[str, Chosen]:
    """Identity → every design that was chosen, in order; a line cut off at the end is left out.

    Raises:
        InputError: the file cannot be read.
    """
    found: dict[str, Chosen] = {}
    try:
        data = answers.read_bytes()
        for line in data[: data.rfind(b"\n") + 1].splitlines():
            key, answer = json.loads(line)
            kind, load, _ = json.loads(key)
            if kind == "choose":
                choice = choice_of(answer["choice"])
                found.setdefault(choice.identity, Chosen(choice, int(load)))
    except OSError as error:
        raise InputError(Fault(f"cannot be read ({error.strerror})", file=str(answers))) from error
    except (ValueError, TypeError, KeyError, IndexError) as error:
        raise InputError(Fault(f"has a line that is not readable ({error})", file=str(answers))) from error
    return found
