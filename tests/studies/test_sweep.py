from __future__ import annotations

import csv
import json
import shutil

import pytest
import yaml

from hydra_dse.design.experiment import Bound
from hydra_dse.errors import InputError, NothingFeasible
from hydra_dse.search.objectives import Objectives
from hydra_dse.search.pareto import nondominated
from hydra_dse.studies.designs_table import rows_between, to_parquet
from hydra_dse.studies.progress import Interrupted
from hydra_dse.studies.run_directory import RunDirectory
from hydra_dse.studies.sweep import sweep
from studies.toy import OBJECTIVES, ToyScorer, toy_experiment, toy_space

FILES = ["designs.parquet", "experiment.yaml", "log.jsonl", "pareto.csv", "provenance.json", "study.journal"]


def _sweep(path, **changes):
    settings = {"scorer": ToyScorer(), "workers": 1} | changes
    return sweep(settings.pop("experiment", None) or toy_experiment(), path, **settings)


def _snapshot(path):
    return {file.name: file.read_bytes() for file in sorted(path.rglob("*")) if file.is_file()}


class Listener:
    def __init__(self, stop_after=None):
        self.states, self.stop_after = [], stop_after

    def update(self, state):
        self.states.append(state)
        if self.stop_after is not None and len(self.states) > self.stop_after:
            raise KeyboardInterrupt


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    path = tmp_path_factory.mktemp("runs") / "toy"
    return path, _sweep(path, command=["hydra-dse", "sweep", "toy"])


def test_a_run_directory_holds_what_was_promised(finished):
    path, _ = finished
    assert sorted(file.name for file in path.iterdir() if not file.name.startswith(".")) == FILES


def test_every_scored_design_is_a_row(finished):
    path, result = finished
    designs = RunDirectory(path).designs()
    assert len(designs) == result.scored == 150
    assert len(set(designs.scores.identities)) == 150
    again = ToyScorer().score(designs.points)
    assert again.identities == designs.scores.identities
    assert again.violations == designs.scores.violations


def test_the_front_is_the_non_dominated_feasible_rows(finished):
    path, result = finished
    scores = RunDirectory(path).designs().scores
    feasible = [index for index, broken in enumerate(scores.violations) if not broken]
    losses = Objectives.named(OBJECTIVES).losses(scores.metrics)[feasible]
    expected = {scores.identities[index] for index, best in zip(feasible, nondominated(losses), strict=True) if best}
    rows = list(csv.DictReader((path / "pareto.csv").read_text().splitlines()))
    assert {row["design"] for row in rows} == {item.identity for item in result.front} == expected
    rates = [float(row["saturation_tokens_per_s"]) for row in rows]
    assert rates == sorted(rates, reverse=True)


def test_provenance_says_what_made_the_run(finished):
    path, _ = finished
    provenance = json.loads((path / "provenance.json").read_text())
    assert provenance["state"] == "finished"
    assert provenance["seed"] == 3
    assert provenance["command"] == ["hydra-dse", "sweep", "toy"]
    assert {"hydra_dse", "python", "numpy", "optuna"} <= set(provenance["versions"])


def test_the_resolved_experiment_is_stored(finished):
    assert yaml.safe_load((finished[0] / "experiment.yaml").read_text()) == toy_experiment().resolved


def test_optunas_own_tools_read_the_journal(finished):
    import optuna

    storage = optuna.storages.JournalStorage(
        optuna.storages.journal.JournalFileBackend(str(finished[0] / "study.journal"))
    )
    study = optuna.load_study(study_name="toy", storage=storage)
    assert len(study.trials) > 8
    assert [direction.name for direction in study.directions] == ["MAXIMIZE", "MINIMIZE"]


def test_progress_is_told_after_every_generation_and_ends_at_the_total(tmp_path):
    listener = Listener()
    result = _sweep(tmp_path / "run", progress=listener)
    done = [state.done for state in listener.states]
    assert done == sorted(done)
    assert done[0] == 0
    assert (listener.states[-1].done, listener.states[-1].total, listener.states[-1].front) == (
        150,
        150,
        len(result.front),
    )
    assert len(listener.states) == result.generations + 1
    assert listener.states[-1].hypervolume == result.hypervolume
    assert listener.states[-1].best["ttft_mean_s"] == min(item.metrics["ttft_mean_s"] for item in result.front)


@pytest.mark.parametrize("stop_after", [0, 1, 3])
def test_an_interrupted_sweep_goes_on_to_the_same_bytes(tmp_path, finished, stop_after):
    with pytest.raises(Interrupted, match=r"stopped; \d+ designs are kept in .*: continue with --resume"):
        _sweep(tmp_path / "run", progress=Listener(stop_after))
    result = _sweep(tmp_path / "run", resume=True)
    assert result.resumed > 0 or stop_after == 0
    for name in ("pareto.csv", "log.jsonl", "experiment.yaml"):
        assert (tmp_path / "run" / name).read_bytes() == (finished[0] / name).read_bytes()
    assert (
        RunDirectory(tmp_path / "run").designs().scores.identities
        == RunDirectory(finished[0]).designs().scores.identities
    )


def test_a_generation_that_was_never_merged_is_read_from_its_part(tmp_path):
    listener = Listener(3)
    with pytest.raises(Interrupted):
        _sweep(tmp_path / "run", progress=listener)
    assert list((tmp_path / "run" / "generations").glob("*.parquet"))
    assert _sweep(tmp_path / "run", resume=True).resumed == listener.states[-1].done


def test_a_finished_run_is_refused_and_left_as_it_is(finished):
    path, _ = finished
    before = _snapshot(path)
    with pytest.raises(InputError, match="holds a finished run of 'toy': add --resume, or name another --out"):
        _sweep(path)
    assert _snapshot(path) == before


def test_resuming_a_finished_run_returns_its_result_without_a_change(finished):
    path, result = finished
    before = _snapshot(path)
    again = _sweep(path, resume=True)
    assert (again.front, again.scored, again.resumed) == (result.front, result.scored, 150)
    assert _snapshot(path) == before


def test_a_run_of_another_experiment_is_refused_with_what_differs(finished):
    path, _ = finished
    before = _snapshot(path)
    with pytest.raises(InputError) as caught:
        _sweep(path, experiment=toy_experiment(trials=999, seed=4), resume=True)
    message = str(caught.value)
    assert "holds a run of another experiment" in message
    assert "search.trials: the run has 150, the experiment 999" in message
    assert "search.seed: the run has 3, the experiment 4" in message
    assert _snapshot(path) == before


def test_a_folder_of_something_else_is_refused_and_left_as_it_is(tmp_path):
    (tmp_path / "thesis.tex").write_text("do not lose me")
    with pytest.raises(InputError, match=r"holds 'thesis.tex' but no provenance.json: not a run directory"):
        _sweep(tmp_path)
    assert _snapshot(tmp_path) == {"thesis.tex": b"do not lose me"}


def test_a_users_own_experiment_file_is_never_overwritten(tmp_path):
    (tmp_path / "experiment.yaml").write_text("name: mine")
    with pytest.raises(InputError, match=r"experiment.yaml: is there without a provenance.json"):
        _sweep(tmp_path)
    assert _snapshot(tmp_path) == {"experiment.yaml": b"name: mine"}


def test_what_a_kill_left_half_written_is_cleared_away(tmp_path):
    with pytest.raises(Interrupted):
        _sweep(tmp_path / "run", progress=Listener(3))
    for name in (".pareto.csv.tmp", "generations/.000003.parquet.tmp"):
        (tmp_path / "run" / name).write_bytes(b"half")
    _sweep(tmp_path / "run", resume=True)
    assert sorted(file.name for file in (tmp_path / "run").iterdir()) == [".lock", *FILES]


def test_a_file_in_place_of_the_directory_is_refused(tmp_path):
    (tmp_path / "run").write_text("")
    with pytest.raises(InputError, match="is a file; a run needs a directory"):
        _sweep(tmp_path / "run")


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("provenance.json", b'{"schema_version": 1'),
        ("provenance.json", b"[]"),
        ("provenance.json", b'{"schema_version": 1, "state": "happy"}'),
        ("experiment.yaml", b"name: [unclosed"),
        ("designs.parquet", b"PAR1 truncated"),
    ],
)
def test_a_corrupt_file_is_named_and_nothing_is_changed(tmp_path, finished, name, content):
    run = tmp_path / "run"
    shutil.copytree(finished[0], run)
    (run / name).write_bytes(content)
    before = _snapshot(run)
    with pytest.raises(InputError) as caught:
        _sweep(run, resume=True)
    assert len(caught.value.faults) == 1
    assert caught.value.faults[0].file == str(run / name)
    assert _snapshot(run) == before


def test_a_finished_run_without_its_designs_is_corrupt_and_left_as_it_is(tmp_path, finished):
    path = shutil.copytree(finished[0], tmp_path / "run")
    (path / "designs.parquet").unlink()
    before = _snapshot(path)
    with pytest.raises(InputError, match=r"is missing.*corrupt") as caught:
        _sweep(path, resume=True)
    assert caught.value.faults[0].file == str(path / "designs.parquet")
    assert {name: data for name, data in _snapshot(path).items() if name != ".lock"} == {
        name: data for name, data in before.items() if name != ".lock"
    }


def test_a_finished_run_that_lost_its_last_generations_is_corrupt(tmp_path, finished):
    path = shutil.copytree(finished[0], tmp_path / "run")
    run = RunDirectory(path)
    designs = run.designs()
    first = rows_between(designs, 0, designs.generation.index(1))
    (path / "designs.parquet").write_bytes(to_parquet(first))
    with pytest.raises(InputError, match=r"marked as finished with more.*corrupt"):
        _sweep(path, resume=True)


def test_rows_that_this_experiment_would_not_propose_are_refused(tmp_path, finished):
    with pytest.raises(Interrupted):
        _sweep(tmp_path / "run", progress=Listener(2), experiment=toy_experiment(seed=9))
    stranger = tmp_path / "run" / "experiment.yaml"
    stranger.write_bytes((finished[0] / "experiment.yaml").read_bytes())
    with pytest.raises(InputError, match="generation 0 is not what this experiment and version propose"):
        _sweep(tmp_path / "run", resume=True)


def test_a_lost_generation_is_noticed(tmp_path):
    with pytest.raises(Interrupted):
        _sweep(tmp_path / "run", progress=Listener(3))
    (tmp_path / "run" / "designs.parquet").unlink()
    with pytest.raises(InputError, match="a generation is missing; the run directory is corrupt"):
        _sweep(tmp_path / "run", resume=True)


def test_a_run_of_another_version_is_not_continued(tmp_path, finished):
    run = tmp_path / "run"
    shutil.copytree(finished[0], run)
    text = (run / "provenance.json").read_text().replace('"hydra_dse": "', '"hydra_dse": "9.')
    (run / "provenance.json").write_text(text)
    with pytest.raises(InputError, match=r"versions.hydra_dse: the run was made by hydra_dse 9\."):
        _sweep(run, resume=True)


@pytest.mark.parametrize("name", ["designs.parquet", "pareto.csv", "generations", "experiment.yaml"])
def test_a_link_out_of_the_run_directory_is_refused(tmp_path, finished, name):
    run, outside = tmp_path / "run", tmp_path / "outside"
    shutil.copytree(finished[0], run)
    (run / name).unlink(missing_ok=True)
    outside.write_bytes(b"mine")
    (run / name).symlink_to(outside)
    with pytest.raises(InputError, match=rf"{name}: is a link out of the run directory"):
        _sweep(run, resume=True)
    assert outside.read_bytes() == b"mine"


def test_a_search_that_finds_nothing_feasible_says_what_the_closest_design_breaks(tmp_path):
    with pytest.raises(
        NothingFeasible, match=r"none of the 150 designs scored is feasible; the closest, \w+, breaks: power"
    ):
        _sweep(tmp_path / "run", scorer=ToyScorer(nothing=True))
    assert len(RunDirectory(tmp_path / "run").designs()) == 150
    assert (tmp_path / "run" / "pareto.csv").read_text().count("\n") == 1


def test_bounds_of_the_experiment_are_kept_by_the_front(tmp_path):
    result = _sweep(tmp_path / "run", experiment=toy_experiment(bounds=(Bound("ttft_mean_s", upper=0.3),)))
    assert result.front
    assert all(item.metrics["ttft_mean_s"] <= 0.3 for item in result.front)


def test_an_empty_space_is_refused_before_anything_is_written(tmp_path):
    with pytest.raises(InputError, match="space 'toy' is empty"):
        _sweep(tmp_path / "run", experiment=toy_experiment(space=toy_space(complete=lambda point: None)))
    assert not (tmp_path / "run").exists()


def test_an_error_of_a_scorer_leaves_a_run_that_can_go_on(tmp_path, finished):
    class Broken(ToyScorer):
        def score(self, points):
            raise InputError("the model has gone")

    with pytest.raises(InputError, match="the model has gone"):
        _sweep(tmp_path / "run", scorer=Broken())
    _sweep(tmp_path / "run", resume=True)
    assert (tmp_path / "run" / "pareto.csv").read_bytes() == (finished[0] / "pareto.csv").read_bytes()
