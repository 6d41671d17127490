"""`hydra-dse calibrate` from tables to a file, and what it says to a mistaken user."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from hydra_dse.calibration.records import read_fits
from hydra_dse.cli.app import app
from hydra_dse.errors import InputError


@pytest.mark.slow
def test_shipped_tables_become_a_calibration_file_and_a_plot(tmp_path: Path) -> None:
    out = tmp_path / "c.yaml"
    words = ["calibrate", "sn30", "gc200", "--out", str(out), "--bootstrap", "10", "--plots", str(tmp_path / "plots")]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0, result.output
    assert "sn30 rdu-layers-o3-1600: 4 rows" in result.output
    assert set(read_fits(out).chips) == {"sn30", "gc200"}
    assert (tmp_path / "plots" / "residuals-sn30.png").is_file()


def test_an_unknown_profile_is_an_input_error_with_a_suggestion() -> None:
    result = CliRunner().invoke(app, ["calibrate", "sn400"])
    assert isinstance(result.exception, InputError)
    assert "sn40l" in str(result.exception)
