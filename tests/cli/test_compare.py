"""`compare` and `variance` on the command line: tables, JSON, files, and what a wrong input says."""

from __future__ import annotations

import json

import pytest

GIVEN = """\
name: given
models: [nemotron-h-4b]
workloads: [{workload: hydra-chat, slo: {ttft: 500 ms}}]
compare:
  - {name: shipped, design: hydra-24-nemotron-chat}
  - {name: round robin, of: shipped, change: {placement: round_robin}}
fractions: [0.5]
primary: 0.5
simulation: {requests: 40, replications: 2, tolerance: 0.3}
"""


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "given.yaml"
    path.write_text(GIVEN)
    return path


@pytest.mark.slow
def test_given_designs_are_compared_without_a_search(hydra, file, tmp_path):
    words = ("compare", file, "--out", tmp_path / "run", "--workers", 1, "--quiet")
    shown = hydra(*words)
    assert shown.code == 0, shown.err
    assert "round robin" in shown.out
    assert "in the only case, 95 % intervals over replications" in " ".join(shown.out.split())
    again = hydra(*words)
    assert again.code == 2
    assert "add --resume" in again.err
    found = json.loads(hydra(*words, "--resume", "--json").out)
    assert found["schema_version"] == 1
    assert found["reference"] == "shipped"
    shipped, other = found["cases"]
    assert shipped["ratios"]["max_rate"]["value"] == 1.0
    assert 0.0 < other["ratios"]["saturation"]["value"] < 1.1
    assert other["unit_cost_usd"] == shipped["unit_cost_usd"] > 0.0
    assert other["node_nm"] == 22.0
    files = {path.name for path in (tmp_path / "run").iterdir()}
    assert {"compare.csv", "points.csv", "summary.csv", "answers.jsonl", "provenance.json"} <= files
    assert json.loads((tmp_path / "run" / "provenance.json").read_text())["state"] == "finished"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("compare", "quickstart"), "has no section 'compare'"),
        (("compare", "hydra-headlin"), "did you mean 'hydra-headline'"),
        (("compare", "hydra-headline", "--set", "search.trials=0"), "search.trials"),
        (("variance", "hydra-headline"), "has no section 'variance'"),
        (("sweep", "prior-art"), "hydra-dse compare prior-art"),
    ],
)
def test_a_wrong_input_ends_with_a_message_and_nothing_is_written(hydra, tmp_path, monkeypatch, words, message):
    monkeypatch.chdir(tmp_path)
    answer = hydra(*words)
    assert answer.code == 2
    assert message in answer.err
    assert list(tmp_path.iterdir()) == []
