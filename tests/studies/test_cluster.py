"""Studies on a Dask cluster: the bytes of a run in this process, a worker killed in between, and what is told."""

from __future__ import annotations

import os
from concurrent.futures import CancelledError
from contextlib import contextmanager

import pytest

from hydra_dse.errors import InputError, Interrupted, WorkersLost
from hydra_dse.studies import cluster as module
from hydra_dse.studies.cluster import on_cluster, run_checked, versions
from hydra_dse.studies.estimating import EstimatorOfFile
from hydra_dse.studies.executor import InProcessExecutor
from hydra_dse.studies.journaled import journaled
from hydra_dse.studies.run_directory import open_run
from hydra_dse.studies.sweep import sweep
from studies.toy import DeadlyScorer, ToyScorer, toy_experiment

FILES = ("pareto.csv", "log.jsonl", "designs.parquet", "experiment.yaml")


def _pid() -> int:
    return os.getpid()


@pytest.mark.slow
@pytest.mark.filterwarnings("default")  # of Dask's own event loops
def test_a_sweep_on_a_cluster_that_loses_a_worker_has_the_bytes_of_one_in_this_process(tmp_path):
    distributed = pytest.importorskip("distributed")
    (tmp_path / "deaths").mkdir()
    sweep(toy_experiment(trials=120), tmp_path / "here", scorer=ToyScorer())
    with distributed.LocalCluster(n_workers=2, threads_per_worker=2, dashboard_address=None) as local:
        sweep(
            toy_experiment(trials=120), tmp_path / "there", scorer=DeadlyScorer(str(tmp_path / "deaths"), 1),
            cluster=local.scheduler_address,
        )  # fmt: skip
    assert len(list((tmp_path / "deaths").iterdir())) == 1
    for name in FILES:
        assert (tmp_path / "there" / name).read_bytes() == (tmp_path / "here" / name).read_bytes()


@pytest.mark.parametrize(
    ("address", "says"),
    [
        ("nonsense://here", "no Dask scheduler answers"),
        ("127.0.0.1:1", "no Dask scheduler answers"),
        ("none.json", "no such scheduler file"),
    ],
)
def test_an_address_without_a_scheduler_is_one_clear_error(tmp_path, monkeypatch, address, says):
    pytest.importorskip("distributed")
    monkeypatch.setattr(module, "CONNECT_S", 0.2)
    with pytest.raises(InputError, match=says) as caught:
        sweep(toy_experiment(), tmp_path / "run", scorer=ToyScorer(), cluster=address)
    assert caught.value.faults[0].file == f"--cluster {address}"


def test_studies_of_many_tasks_go_to_the_cluster_that_is_named(tmp_path, monkeypatch):
    asked = []

    @contextmanager
    def remote(address):
        asked.append(address)
        yield InProcessExecutor()

    monkeypatch.setattr(module, "on_cluster", remote)
    run = open_run(tmp_path / "run", toy_experiment(), resume=False, command=())
    with journaled(run, "cases.jsonl", 1, "tasks", "tcp://there:8786") as (_, pool):
        assert pool.submit(_pid).result() == os.getpid()
    assert asked == ["tcp://there:8786"]


def test_without_dask_the_extra_to_install_is_named(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "distributed", None)
    with pytest.raises(InputError, match=r"pip install 'hydra-dse\[cluster\]'"), on_cluster("tcp://host:8786"):
        pass


def test_a_worker_with_other_versions_computes_nothing():
    wanted = tuple((name, "0.0" if name == "numpy" else version) for name, version in versions())
    with pytest.raises(InputError, match=r"has numpy .*, this process has 0\.0; results could differ"):
        run_checked(wanted, _pid, (), {})
    assert run_checked(versions(), _pid, (), {}) == os.getpid()


def test_a_worker_that_sees_another_experiment_refuses_it(tmp_path):
    (tmp_path / "experiment.yaml").write_text("name: another\n")
    with pytest.raises(InputError, match="sees another file there; it must share the run directory"):
        EstimatorOfFile(str(tmp_path / "experiment.yaml"), "0" * 64)()
    with pytest.raises(InputError, match="sees no such file"):
        EstimatorOfFile(str(tmp_path / "none.yaml"), "0" * 64)()


def test_a_scheduler_that_goes_away_ends_the_sweep_and_keeps_what_was_done(tmp_path, monkeypatch):
    class Gone:
        def scheduler_info(self):
            return {"workers": {}}

        def get_executor(self, pure):
            return self

        def submit(self, *arguments):
            raise CancelledError

        def shutdown(self, wait):
            pass

        def close(self, timeout):
            pass

    pytest.importorskip("distributed")
    monkeypatch.setattr(module, "_connected", lambda address: Gone())
    with pytest.raises(Interrupted, match=r"the scheduler at x has gone; 0 designs are kept in .*--resume"):
        sweep(toy_experiment(), tmp_path / "run", scorer=ToyScorer(), cluster="x")
    with pytest.raises(WorkersLost), on_cluster("x") as pool:
        pool.submit(_pid)
