"""`check_file` recognises every kind of input and reports all its faults; the finder tells paths from names."""

from pathlib import Path

import pytest

from hydra_dse.config import bundled, check_file, find
from hydra_dse.config.check import kind_of
from hydra_dse.config.finder import data_root
from hydra_dse.config.loader import load_yaml
from hydra_dse.errors import InputError

ROOT = Path(__file__).resolve().parents[2]
SHIPPED = [
    *sorted((ROOT / "experiments").glob("*.yaml")),
    *sorted((ROOT / "workloads").glob("**/*.yaml")),
    *sorted((ROOT / "workloads" / "models").glob("*.json")),
    *sorted((ROOT / "search_spaces").glob("**/*.yaml")),
]


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_a_shipped_file_has_no_faults(path):
    assert check_file(path) == []


@pytest.mark.parametrize(
    ("folder", "kind"),
    [
        ("experiments", "experiment"),
        ("workloads", "workload"),
        ("workloads/lengths", "lengths"),
        ("search_spaces", "space"),
        ("search_spaces/designs", "design"),
    ],
)
def test_a_document_is_recognised_by_its_keys(folder, kind):
    files = sorted((ROOT / folder).glob("*.yaml"))
    assert files
    kinds = {kind_of(load_yaml(path)) for path in files}
    assert kinds - {"comparison", "decomposition"} == {kind}


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("w.yaml", "arrivals: {process: poisson, rate: 2}\n", ["w.yaml:1:36: arrivals.rate: 2 has no unit"]),
        ("s.yaml", "parameters: {}\ncounts: {}\n", ["s.yaml:1:1: dies: missing key"]),
        ("x.yaml", "foo: 1\n", ["x.yaml:1:1: is not recognised; expected the keys of an experiment, workload"]),
        (
            "l.yaml",
            "prompt: 1\noutput: 0\n",
            ["l.yaml:1:1: name: missing key 'name'", "l.yaml:2:9: output: must be at"],
        ),
        ("t.csv", "arrival_s,prompt_tokens,output_tokens\n0,nan,1\n", ["t.csv:2: prompt_tokens: 'nan'"]),
        ("l.csv", "num_prefill_tokens,num_decode_tokens\n5,0\n", ["l.csv:2: num_decode_tokens: '0'"]),
        ("t.jsonl", '{"timestamp": 0}\n', ["t.jsonl:1: has no input_length, output_length"]),
        ("e.yaml", "", ["e.yaml:1:1: is empty"]),
        ("m.json", '{"model_type": "lama"}', ["m.json:1"]),
        ("m.json", '{"model_type": ', ["m.json:1"]),
    ],
)
def test_a_wrong_file_of_any_kind_gives_its_faults(tmp_path, name, text, expected):
    path = tmp_path / name
    path.write_text(text)
    found = [str(fault).replace(f"{tmp_path}/", "") for fault in check_file(path)]
    for start in expected:
        assert any(fault.startswith(start) for fault in found), found


def test_a_missing_file_is_a_fault(tmp_path):
    assert [fault.message for fault in check_file(tmp_path / "none.yaml")] == ["no such file"]


def test_an_existing_path_wins_over_a_bundled_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert find("workloads", "sharegpt") == data_root() / "workloads" / "sharegpt.yaml"
    (tmp_path / "sharegpt").write_text("x: 1\n")
    assert find("workloads", "sharegpt") == Path("sharegpt")


def test_an_unknown_name_is_refused_with_the_closest_and_all_names():
    with pytest.raises(InputError) as caught:
        find("workloads", "sharegtp")
    assert "did you mean 'sharegpt'?" in str(caught.value)
    assert "bundled: arxiv-summarization, azure-code" in str(caught.value)
    with pytest.raises(InputError, match="did you mean 'workloads'"):
        find("workload", "x")


@pytest.mark.parametrize("name", ["../workloads/sharegpt", "sharegpt/../sharegpt", "sharegpt.yaml", "a\0b", "x" * 5000])
def test_a_name_never_reaches_out_of_the_bundled_data(name):
    with pytest.raises(InputError):
        find("workloads", name)


def test_names_of_every_kind_are_listed():
    assert {"azure-conversation", "azure-code", "hydra-chat", "reasoning-1k-16k"} <= set(bundled("workloads"))
    assert "quickstart" in bundled("experiments")
    assert "hydra-24" in bundled("spaces")
    assert all(bundled(kind) for kind in ("models", "lengths", "chiplets", "memories", "links", "calibrations"))
