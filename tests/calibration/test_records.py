"""A calibration file says what it was made from, and can be made again byte for byte."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from hydra_dse.calibration import fit, fits_yaml, read_fits, read_profile
from hydra_dse.calibration.measurements import SHIPPED, shipped_files
from hydra_dse.calibration.records import SHIPPED_FITS
from hydra_dse.config.loader import load_yaml
from hydra_dse.errors import InputError


@pytest.mark.slow
def test_the_same_inputs_give_the_same_bytes() -> None:
    path = SHIPPED / "sn30.yaml"
    texts = [fits_yaml([fit(rows, draws=20) for rows in read_profile(path)], [path], 20) for _ in range(2)]
    assert texts[0] == texts[1]


def test_a_file_reads_back_to_the_values_fitted(tmp_path: Path) -> None:
    path = SHIPPED / "gc200.yaml"
    fits = [fit(rows, draws=20) for rows in read_profile(path)]
    out = tmp_path / "c.yaml"
    out.write_text(fits_yaml(fits, [path], 20), encoding="utf-8")
    found = read_fits(out)
    assert found.value("gc200", "ipu-pipeline-gpt-117m", "sample") == pytest.approx(fits[0].value("sample"), rel=1e-4)


def test_the_shipped_fits_were_made_from_the_shipped_tables() -> None:
    data = load_yaml(SHIPPED_FITS).data
    stated = {str(item["file"]): item["sha256"] for item in data["inputs"]}  # type: ignore[index,attr-defined]
    held = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in shipped_files()}
    assert stated == held


@pytest.mark.parametrize("name", ["gc200", "sn30", "sn40l"])
def test_the_shipped_fits_are_what_the_command_writes_now(name: str) -> None:
    shipped = read_fits().chips[name]
    for rows in read_profile(SHIPPED / f"{name}.yaml"):
        found = fit(rows, draws=0)
        for number, parameter in enumerate(rows.form.parameters):
            # Two builds of LAPACK agree to rounding along well-determined directions only.
            kept = shipped[rows.key].parameters[parameter.name]
            if kept.undetermined is None:
                assert found.values[number] == pytest.approx(kept.value, rel=1e-3), (rows.key, parameter.name)


def test_every_shipped_parameter_lies_in_its_interval_and_every_table_has_a_source() -> None:
    for name, fits in read_fits().chips.items():
        for key, section in fits.items():
            assert section.source, (name, key)
            for parameter in section.parameters.values():
                assert parameter.low <= parameter.value <= parameter.high


def test_a_file_of_another_version_is_refused(tmp_path: Path) -> None:
    text = SHIPPED_FITS.read_text(encoding="utf-8").replace("version: 1", "version: 99", 1)
    path = tmp_path / "later.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match="99"):
        read_fits(path)
