"""Technologies: the library's, a user's, and what is wrong with one."""

from __future__ import annotations

from pathlib import Path

import pytest

from hydra_dse.config import load_design, load_technology
from hydra_dse.errors import InputError
from hydra_dse.physical import package_cost

FILE = Path(__file__).resolve().parents[2] / "hydra_dse" / "library" / "technologies.yaml"


def test_every_part_of_the_library_names_its_source() -> None:
    for name in ("default", "actuary"):
        assert all(text.strip() for _, text in load_technology(name).sources)


def test_a_node_between_two_takes_the_nearer_process() -> None:
    technology = load_technology()
    assert [technology.process(node).node_nm for node in (4, 22, 28, 90)] == [5, 20, 28, 55]


def test_an_unknown_technology_is_refused_at_its_place(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="actuary"):
        load_technology("actuari")
    with pytest.raises(InputError, match=r"package\.technology"):
        load_design("h100", ["package.technology=defalt"])


def test_a_design_names_the_technology_that_it_is_made_with() -> None:
    plain, other = load_design("h100"), load_design("h100", ["package.technology=actuary"])
    assert package_cost(other.package).unit != package_cost(plain.package).unit
    assert other.identity != plain.identity


def test_faults_of_a_users_technology_are_found_together(tmp_path: Path) -> None:
    entry = FILE.read_text().split("  default:\n", 1)[1].split("\n  actuary:", 1)[0]
    own = "\n".join(line.removeprefix("    ") for line in entry.splitlines())
    path = tmp_path / "mine.yaml"
    path.write_text(own)
    assert load_technology(path).name == "mine"
    path.write_text(own.replace("bond_yield: 0.99", "bond_yield: 1.99").replace("dram_limit_c: 95", "dram_limit_c: 20"))
    with pytest.raises(InputError) as caught:
        load_technology(path)
    assert "bond_yield" in str(caught.value) and "dram_limit_c" in str(caught.value)
