"""Contract of chiplet classes: a YAML file that loads, and times and energies that physics allows."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from hydra_dse.config import load_calibration, load_chiplet, load_model
from hydra_dse.hardware.components import Chiplet
from hydra_dse.model import operators_of
from hydra_dse.model.operators import Batch, Operator, OperatorClass
from hydra_dse.model.precision import Precision
from hydra_dse.operator_cost import DieShare, compute_time_s, die_energy_j, die_rates

RETICLE_MM2 = 858.0
"""Exposure field of 26 × 33 mm² of today's scanners; a wafer-scale die states more on purpose: override the test."""
ROUNDING = 1e-9


class ChipletContract:
    """Tests of a die file; override `file`, and `calibration` or `precision` where the defaults do not fit."""

    def file(self) -> str | Path:
        """The YAML file, or the name of a die of the library."""
        raise NotImplementedError

    def calibration(self) -> str | Path:
        """Efficiencies of its style."""
        return "default"

    def precision(self) -> Precision:
        """Formats of the operands."""
        return Precision()

    def _operators(self) -> list[Operator]:
        """One operator of each class of a hybrid model."""
        found: dict[OperatorClass, Operator] = {}
        for operator in operators_of(load_model("nemotron-h-8b")):
            found.setdefault(operator.kind, operator)
        return list(found.values())

    def _time_s(self, operator: Operator, rows: float) -> float:
        chiplet, precision = load_chiplet(self.file()), self.precision()
        rates = die_rates(chiplet, load_calibration(self.calibration()), precision)
        batch = _decoding(rows)
        return float(compute_time_s(operator, operator.demand(batch, precision), batch, rates, DieShare(1.0)))

    def test_it_has_a_source_and_an_area_that_can_be_exposed(self) -> None:
        chiplet = load_chiplet(self.file())
        assert chiplet.source
        assert 0 < chiplet.area_mm2 <= RETICLE_MM2

    def test_every_operator_takes_a_time(self) -> None:
        for operator in self._operators():
            time_s = self._time_s(operator, 8)
            assert np.isfinite(time_s), operator.name
            assert time_s > 0, operator.name

    def test_no_operator_is_faster_than_the_peak(self) -> None:
        chiplet, precision = load_chiplet(self.file()), self.precision()
        peak = _peak_flops_per_s(chiplet)
        for operator in self._operators():
            demand = operator.demand(_decoding(64), precision)
            flops = float(demand.matmul_flops)
            assert self._time_s(operator, 64) >= flops / peak * (1 - ROUNDING), operator.name

    def test_more_sequences_never_take_less_time(self) -> None:
        for operator in self._operators():
            times = [self._time_s(operator, rows) for rows in (1, 4, 16, 64, 256)]
            assert (np.diff(times) >= -ROUNDING * np.array(times[1:])).all(), operator.name

    def test_work_costs_energy(self) -> None:
        chiplet, precision = load_chiplet(self.file()), self.precision()
        rates = die_rates(chiplet, load_calibration(self.calibration()), precision)
        assert chiplet.static_power_w >= 0
        for operator in self._operators():
            batch = _decoding(8)
            demand = operator.demand(batch, precision)
            assert float(die_energy_j(operator, demand, batch, rates, DieShare(1.0))) >= 0, operator.name


def _decoding(rows: float) -> Batch:
    """So many sequences that decode at a context of 1,024 tokens."""
    return Batch(decode_sequences=rows, decode_context_tokens=1024.0 * rows, emitted_tokens=rows)


def _peak_flops_per_s(chiplet: Chiplet) -> float:
    fastest = max([1.0, *(speed for _, speed in chiplet.format_speed)])
    return max(chiplet.matmul_flops_per_s * fastest, chiplet.vector_flops_per_s)
