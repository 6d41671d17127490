"""Silicon of unlike nodes on one scale: as many transistors count as much."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hydra_dse.config import load_design
from hydra_dse.physical.area import area_mm2
from hydra_dse.physical.iso_node import ISO_NODE_NM, density_mtr_per_mm2, iso_node_mm2


def test_an_h100_holds_its_eighty_billion_transistors_at_any_node():
    package = load_design("h100").package
    assert iso_node_mm2(package) * density_mtr_per_mm2(ISO_NODE_NM) == pytest.approx(80e3, rel=0.01)


def test_density_falls_with_the_node_between_and_beyond_the_products():
    densities = [density_mtr_per_mm2(node) for node in (3, 4, 5, 7, 10, 14, 16, 22, 28, 40)]
    assert densities == sorted(densities, reverse=True)
    assert density_mtr_per_mm2(28) == pytest.approx(8000 / 601, rel=0.01)


def test_silicon_of_the_node_itself_is_what_it_is_and_coarser_silicon_shrinks():
    package = load_design("hydra-24-nemotron-chat").package
    fine = tuple(replace(group, chiplet=replace(group.chiplet, technology_nm=ISO_NODE_NM)) for group in package.dies)
    assert iso_node_mm2(replace(package, dies=fine)) == pytest.approx(area_mm2(package))
    assert iso_node_mm2(package) == pytest.approx(
        area_mm2(package) * density_mtr_per_mm2(22) / density_mtr_per_mm2(ISO_NODE_NM)
    )
