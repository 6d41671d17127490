"""Studies of many tasks on a real cluster of two worker processes: the bytes of the same study in this process."""

from __future__ import annotations

import contextlib

import pytest

from hydra_dse.config import load_experiment, load_variance
from hydra_dse.studies.dynamic import dynamic
from hydra_dse.studies.front_uncertainty import uncertainty
from hydra_dse.studies.sweep import sweep
from hydra_dse.studies.variance import decompose, variance_csv

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("default")]  # of Dask's own event loops

VARIANCE = """\
name: small
models: [jamba-tiny]
workloads: [{workload: hydra-chat, slo: {ttft: 100 ms}}, {workload: azure-code, slo: {ttft: 1 s}}]
space: small-9
variance:
  factors: {die mix: [hbm, Ap, Ad, Mp], others: [link_gb_per_s, max_batch]}
  rows: 4
"""


@pytest.fixture(scope="module")
def address():
    distributed = pytest.importorskip("distributed")
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as local:
        yield local.scheduler_address


@contextlib.contextmanager
def nothing_here(monkeypatch, owner, name):
    """Fail where this process computes what the cluster is to compute."""

    def here(*_):
        raise AssertionError(f"{name} ran in this process")

    with monkeypatch.context() as patch:
        patch.setattr(owner, name, here)
        yield


def test_a_decomposition_of_variance(address, tmp_path, monkeypatch):
    from hydra_dse.studies import executor

    (tmp_path / "small.yaml").write_text(VARIANCE)
    study = load_variance(tmp_path / "small.yaml")
    monkeypatch.setattr("hydra_dse.studies.variance._TASK_DESIGNS", 5)  # several tasks for each load
    here = variance_csv(decompose(study))
    with nothing_here(monkeypatch, executor.InProcessExecutor, "submit"):
        assert variance_csv(decompose(study, cluster=address)) == here


def test_task_maps_under_shifting_loads(address, tmp_path, monkeypatch):
    from hydra_dse.studies.executor import InProcessExecutor

    fewer = ["validation={requests: 40, replications: 1}", "dynamic.task_maps=[static, elastic]"]
    experiment = load_experiment("dynamic-task-maps", fewer, quick=True)
    dynamic(experiment, tmp_path / "here")
    with nothing_here(monkeypatch, InProcessExecutor, "submit"):
        dynamic(experiment, tmp_path / "there", cluster=address)
    for name in ("dynamic.csv", "dynamic_gains.csv", "cases.jsonl"):
        assert (tmp_path / "there" / name).read_bytes() == (tmp_path / "here" / name).read_bytes()


def test_a_front_under_drawn_calibrations(address, tmp_path, monkeypatch):
    from hydra_dse.studies.calibration_variants import VariantsHere

    small = ["space=small-9", "rate=1 req/s", "search.trials=8", "search.population=4"]
    for place in ("here", "there"):
        sweep(load_experiment("quickstart", small), tmp_path / place)
    uncertainty(tmp_path / "here", draws=3)
    with nothing_here(monkeypatch, VariantsHere, "score"):
        uncertainty(tmp_path / "there", draws=3, cluster=address)
    for name in ("front_uncertainty.csv", "comparisons.csv", "draws.jsonl"):
        assert (tmp_path / "there" / name).read_bytes() == (tmp_path / "here" / name).read_bytes()
