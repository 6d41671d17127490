"""Contract of metrics of traces."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from hydra_dse.bundle.metrics.measured import measure
from hydra_dse.bundle.metrics.registry import TraceMetric, Unavailable, check, own_metrics


class TraceMetricContract:
    """Tests of a `TraceMetric`; override `metric`, and `bundle` with a folder that has what it needs."""

    def metric(self) -> TraceMetric:
        """What is tested."""
        raise NotImplementedError

    def bundle(self) -> Path:
        """Folder of a bundle of which the metric has a value, e.g. written by `hydra-dse simulate … --bundle`."""
        raise NotImplementedError

    def _values(self) -> list[float]:
        found, bundle = [], measure(self.bundle())
        for kind, function in self.metric().functions.items():
            if kind in (*bundle.kinds, "card"):
                value = function(bundle)
                found += list(value.values()) if isinstance(value, Mapping) else [value]
        return found

    def test_it_is_described_in_the_terms_of_the_registry(self) -> None:
        check(self.metric(), "the metric under test")
        assert self.metric().definition

    def test_its_name_is_free(self) -> None:
        assert self.metric().name not in own_metrics()

    def test_it_has_finite_values_of_the_bundle(self) -> None:
        values = self._values()
        assert values, f"no function for a bundle of {measure(self.bundle()).kinds}"
        assert np.isfinite(values).all()

    def test_the_same_bundle_gives_the_same_values(self) -> None:
        assert self._values() == self._values()

    def test_a_bundle_without_its_inputs_is_told_apart_from_a_fault(self, tmp_path: Path) -> None:
        """A folder with an empty card: a value that needs no more, or `Unavailable`, nothing else."""
        (tmp_path / f"{tmp_path.name}.yaml").write_text("version: 1\n", encoding="utf-8")
        bundle = measure(tmp_path)
        for function in self.metric().functions.values():
            try:
                function(bundle)
            except Unavailable as reason:
                assert str(reason)
