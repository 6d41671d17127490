"""Write `docs/calibration.md` from the shipped fits: `python docs/generate_calibration.py [--published DIR] [--plots]`.

Tables come from `fits.yaml` and the shipped measurements, by a command that anyone can repeat.  `--published` measures
the errors on published rows that were not selected (into `calibration_unseen.csv`); `--plots` draws the residuals again
(fits everything, half a minute).  The front of hydra-24 comes from `benchmarks/hydra24_calibrations.py`.
"""

from __future__ import annotations

import argparse
import csv
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TextIO

import numpy as np

from hydra_dse.calibration.access import access_share
from hydra_dse.calibration.chips import chip_figures
from hydra_dse.calibration.end_to_end import (
    CODESTRAL_MAMBA_7B,
    LLAMA_8B,
    Kernels,
    crossover_tokens,
    mamba_prefill_s,
    mamba_step_s,
    transformer_prefill_s,
    transformer_step_s,
)
from hydra_dse.calibration.fitting import fit, leave_out
from hydra_dse.calibration.measurements import FORMS, SHIPPED, shipped_files
from hydra_dse.calibration.nouns import Errors, Fit, Observations
from hydra_dse.calibration.plots import write_residual_plots
from hydra_dse.calibration.readers import read_profile
from hydra_dse.calibration.records import ErrorSection, FitSection, FittedChips, read_fits
from hydra_dse.calibration.transfer import part_scaled_on_one_row, scaled, scaled_on_one_row, transferred
from hydra_dse.calibration.wafer import wafer_from
from hydra_dse.config.hardware import load_calibration
from hydra_dse.hardware.calibration import Calibration

DOCS = Path(__file__).resolve().parent
UNSEEN, FRONT, FIGURES = DOCS / "calibration_unseen.csv", DOCS / "calibration_front.csv", DOCS / "figures"
MULTICHIP, SOLVED = DOCS / "multichip.csv", DOCS / "multichip_parameters.csv"
NOTE = "<!-- Written by docs/generate_calibration.py from fits.yaml and the tables beside it; do not edit. -->\n\n"
PUBLISHED = (
    *(
        (chip, f"kernels/{name}_{chip}_sxm_{tag}.csv")
        for chip in ("h100", "b200")
        for name, tag in (
            ("gemm", "vllm_0.24.0"),
            ("attention_context", "vllm_0.24.0"),
            ("attention_generation", "vllm_0.24.0"),
            ("gdn", "vllm_0.24.0"),
            ("kda", "sglang_0.5.16"),
        )
    ),
    ("b200", "kernels/mamba2_b200_trtllm_1.3.0rc15.csv"),
    ("h100", "kernels/mamba2_conv1d_h100_sxm_trtllm_1.3.0rc20.csv"),
)
SERVED = "serving/h100_7b_ssm_vs_transformer.csv"
CARRIED = (
    "gemm-bf16",
    "gemm-fp8",
    "prefill-attention",
    "decode-attention",
    "recurrent-scan-gdn",
    "chunk-scan-kda",
    "state-update-gdn",
    "state-update-kda",
    "convolution-gdn",
    "convolution-kda",
    "convolution-mamba2",
)


def table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = [f"| {' | '.join(columns)} |", f"|{'---|' * len(columns)}"]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rows)]) + "\n"


def share(value: float) -> str:
    """A share in percent."""
    return f"{100.0 * value:.1f} %"


def signed(value: float) -> str:
    """A signed share in percent."""
    return f"{100.0 * value:+.1f} %"


def parameters(fits: FittedChips) -> str:
    """Every fitted parameter with its interval."""
    parts = []
    for chip, found in fits.chips.items():
        rows = [
            (f"`{key}`", name, f"{p.value:.4g}", f"{p.low:.4g} – {p.high:.4g}", p.unit, p.undetermined or "")
            for key, section in found.items()
            for name, p in section.parameters.items()
        ]
        parts.append(
            f"### {chip}\n\n" + table(("fit", "parameter", "value", "90 % interval", "unit", "not determined"), rows)
        )
    return "\n".join(parts)


def formulas(fits: FittedChips) -> str:
    """The form behind each fit and what its parameters mean."""
    used = dict.fromkeys(section.form for found in fits.chips.values() for section in found.values())
    rows = []
    for name in used:
        form = FORMS[name]
        meaning = "; ".join(f"`{parameter.name}`: {parameter.meaning}" for parameter in form.parameters)
        rows.append((f"`{name}`", form.operator_class, form.formula.replace("|", "\\|"), meaning))
    return table(("form", "what it costs", "formula", "parameters"), rows)


def _errors(found: ErrorSection | None) -> tuple[str, ...]:
    if found is None:
        return ("the others do not determine it", "", "", "", "")
    return (share(found.median), share(found.mean), share(found.p90), share(found.worst), signed(found.bias))


def crossvalidated(fits: FittedChips) -> str:
    """Errors with the row's configuration left out."""
    rows = [
        (chip, f"`{key}`", str(section.rows), str(section.configurations), *_errors(section.held_out))
        for chip, found in fits.chips.items()
        for key, section in found.items()
    ]
    names = ("chip", "fit", "rows", "configurations", "median", "mean", "p90", "worst", "signed median")
    return table(names, rows)


def shipped(chip: str, key: str) -> Observations:
    """Shipped rows of a fit."""
    return next(rows for rows in read_profile(SHIPPED / f"{chip}.yaml") if rows.key == key)


def carried() -> str:
    """H100 fits on B200 rows."""
    rows = []
    for key in CARRIED:
        fitted, there = fit(shipped("h100", key), draws=0), shipped("b200", key)
        alone, (factor, after) = transferred(fitted, there), scaled(fitted, there)
        rows.append(
            (
                f"`{key}`",
                share(alone.median),
                signed(alone.bias),
                f"{factor:.2f}",
                share(after.median),
                share(after.p90),
            )
        )
    return table(("fit of H100", "median on B200", "signed", "factor", "median after it", "p90 after it"), rows)


def whole(rows: Observations) -> np.ndarray:
    """Rows that end after the last token, against times to the first one."""
    return np.asarray(rows.columns["output"] > 1)


def serving() -> str:
    """RDU serving: rows left out, another software generation, and one factor for it by the row that fixes it."""
    rows, other = shipped("sn40l", "rdu-serving-meta-llama-3-8b"), shipped("sn40l", "rdu-serving-llama-2-7b-hf")
    fitted, held, ends = fit(rows, draws=0), leave_out(rows), whole(rows)
    if held is None:
        raise ValueError("rows of RDU serving do not determine their form")
    left, first = Errors(held.relative[ends]), float(held.relative[~ends][0])
    ended = other.rows(whole(other))
    alone, seen = transferred(fitted, ended), transferred(fitted, other)
    lines = [
        f"Llama-3-8B, end to end, a row left out: mean {share(left.mean)}, worst {share(left.worst)} (target 10 and "
        f"20 %); the time to the first token, left out with its end-to-end row: {signed(first)}.",
        f"Unchanged on Llama-2-7B, an older software generation: signed median {signed(alone.bias)}, from "
        f"{signed(float(alone.relative.min()))} to {signed(float(alone.relative.max()))}; time to the first token "
        f"{signed(float(seen.relative[~whole(other)][0]))}.",
        "After one factor, named a factor of the software generation and fitted on one row: on the time in which "
        "weights stream, or on all times; means of the errors of the other end-to-end rows (target 20 %), by that row:",
        table(
            ("tokens", "batch", "factor on weights", "mean on the rest", "factor on all", "mean"),
            _factors(fitted, ended),
        ),
    ]
    return "\n\n".join(lines)


def _factors(fitted: Fit, ended: Observations) -> list[tuple[str, ...]]:
    found = []
    for row in range(len(ended)):
        factor, weights = part_scaled_on_one_row(fitted, ended, row, "weight_bytes")
        scale, every = scaled_on_one_row(fitted, ended, row)
        load = (f"{ended.columns[name][row]:.0f}" for name in ("input", "batch"))
        found.append((*load, f"{factor:.2f}", share(weights.mean), f"{scale:.2f}", share(every.mean)))
    return found


def wafer(fits: FittedChips) -> str:
    """Regimes of depth."""
    found = wafer_from(fits.chips["wse-2"], "width-256")
    rates, deep = shipped("wse-2", "wse-rates-width-256"), shipped("wse-2", "wse-transmission-width-256")
    layers = np.concatenate((rates.columns["layers"], deep.columns["layers"]))
    measured = np.concatenate((rates.response, deep.response))
    predicted, regimes = found.rates_per_s(layers), found.regimes(layers)
    rows = [
        (f"{layer:.0f}", regime, f"{seen:.0f}", f"{said:.0f}", signed(said / seen - 1.0))
        for layer, regime, seen, said in zip(layers, regimes, measured, predicted, strict=True)
    ]
    text = table(("layers", "regime", "samples/s reported", "samples/s of the form", "error"), rows)
    held = leave_out(rates)
    if held is not None:
        figures = f"mean {share(held.mean)}, worst {share(held.worst)} (target 15 %)"
        text += f"\nOutside the collapse, a depth left out: {figures}.\n"
    return text + "Two points lie in the collapse: they fix a rate and an exponent, and no error can be stated.\n"


def unseen_rows(folder: Path, fits: FittedChips) -> Iterator[tuple[str, ...]]:
    """Errors on published rows that were not selected, and of whole iterations."""
    for chip, path in PUBLISHED:
        for rows in read_profile(folder / path, chip):
            section = fits.chips[chip].get(rows.key)
            found = None if section is None else _unseen(rows, section)
            if found is not None:
                yield (
                    chip,
                    rows.key,
                    str(len(found.relative)),
                    *(f"{v:.4f}" for v in (*_figures(found), _covered(found, section))),
                )
    yield from _whole(folder, fits)


def _unseen(rows: Observations, section: FitSection) -> Errors | None:
    """Errors of rows that were not selected; None where a table is so short that all were."""
    kept, names = shipped(rows.chip.name, rows.key), rows.form.columns
    seen = {tuple(round(kept.columns[name][row], 6) for name in names) for row in range(len(kept))}
    new = [tuple(round(rows.columns[name][row], 6) for name in names) not in seen for row in range(len(rows))]
    if not any(new):
        return None
    left = rows.rows(np.array(new))
    values = np.array([section.parameters[parameter.name].value for parameter in rows.form.parameters])
    return Errors(left.predicted(values) / left.response - 1.0)


def _covered(found: Errors, section: FitSection) -> float:
    """Share of rows inside the 90 % interval that rows left out of the fit give: errors up to their 90th percentile."""
    limit = (section.held_out or section.errors).p90
    return float(np.mean(np.abs(found.relative) <= limit))


def _figures(found: Errors) -> tuple[float, ...]:
    return found.median, found.mean, found.p90, found.worst, found.bias


def _whole(folder: Path, fits: FittedChips) -> Iterator[tuple[str, ...]]:
    kernels = Kernels(fits, chip_figures("h100"))
    with (folder / SERVED).open(encoding="utf-8") as stream:
        rows = list(csv.DictReader(stream))
    for model, label in (("llama3", "Llama-3.1-8B"), ("codestral_mamba", "Codestral-Mamba-7B")):
        errors = []
        for row in rows:
            if (row["table"], row["metric"], row["model"]) == ("prefill_throughput", "prefill_time", model):
                batch, length = int(float(row["batch_size"])), int(float(row["prefill_length"]))
                if model == "llama3":
                    time = transformer_prefill_s(LLAMA_8B, kernels, batch, length)
                else:
                    time = mamba_prefill_s(CODESTRAL_MAMBA_7B, kernels, batch, length)
                errors.append(time / (float(row["value"]) / 1e3) - 1.0)
        found = Errors(np.array(errors))
        yield ("h100", f"whole prefill {label}", str(len(errors)), *(f"{v:.4f}" for v in _figures(found)), "")
    steps = {
        (row["model"], float(row["generation_length"])): float(row["value"]) / float(row["generation_length"])
        for row in rows
        if row["table"] == "gen_time_mem_vllm" and row["metric"] == "generation_time"
    }
    host = steps["llama3", 512.0] - transformer_step_s(LLAMA_8B, kernels, 1, 256.0)
    for model, label in (("llama3", "Llama-3.1-8B"), ("codestral_mamba", "Codestral-Mamba-7B")):
        errors = []
        for (name, tokens), seconds in steps.items():
            if name == model and (model, tokens) != ("llama3", 512.0) and 512 <= tokens <= 16384:
                if model == "llama3":
                    step = transformer_step_s(LLAMA_8B, kernels, 1, tokens / 2)
                else:
                    step = mamba_step_s(CODESTRAL_MAMBA_7B, kernels, 1)
                errors.append((step + host) / seconds - 1.0)
        found = Errors(np.array(errors))
        yield ("h100", f"decode step {label} (vLLM)", str(len(errors)), *(f"{v:.4f}" for v in _figures(found)), "")
    yield ("h100", "crossover of prefill, tokens", "1", f"{crossover_tokens(kernels):.0f}", "", "", "", "", "")


def unseen() -> str:
    """The table of `calibration_unseen.csv`."""
    with UNSEEN.open(encoding="utf-8") as stream:
        read = list(csv.DictReader(stream))
    rows, crossing = [], ""
    for row in read:
        if row["fit"].startswith("crossover"):
            crossing = row["median"]
            continue
        shares = [share(float(row[name])) for name in ("median", "mean", "p90", "worst")]
        inside = f"{float(row['covered']):.0%}" if row["covered"] else ""
        rows.append((row["chip"], row["fit"], row["rows"], *shares, signed(float(row["bias"])), inside))
    text = table(("chip", "what", "rows", "median", "mean", "p90", "worst", "signed median", "inside 90 %"), rows)
    return f"{text}{_coverage(read)}\n{_crossover(float(crossing))}\n"


def _crossover(tokens: float) -> str:
    """Where a state-space model becomes faster than a transformer, and what decode steps were held against."""
    return (
        f"One prompt of Codestral-Mamba-7B is faster than one of Llama-3.1-8B from {tokens:,.0f} tokens; measured "
        "20,715 (interpolated between 16,384 and 32,768).  Decode steps are those of vLLM from 512 tokens on, with the "
        "host's time per step taken from Llama's row of 512; shorter runs carry the start of the engine, and "
        "Codestral's longest run doubled its time per token, unexplained.  Eager decoding of the same models is bound "
        "by the framework: 9.9 ms a step of Codestral, up to 30 ms of Llama."
    )


def _coverage(read: Sequence[dict[str, str]]) -> str:
    """How many of the measured rows that no fit has seen lie inside the 90 % intervals, by chip."""
    parts = []
    for chip in dict.fromkeys(row["chip"] for row in read):
        mine = [(int(row["rows"]), float(row["covered"])) for row in read if row["chip"] == chip and row["covered"]]
        inside = sum(rows * share for rows, share in mine) / sum(rows for rows, _ in mine)
        parts.append(f"{inside:.1%} of {sum(rows for rows, _ in mine):,} rows of {chip}")
    return (
        "\n90 % intervals of a prediction are the errors of rows whose configuration was left out of the fit, up to "
        f"their 90th percentile. Measured rows that no fit has seen lie inside: {', '.join(parts)} (asked: 85 to 95 "
        "%).\n"
    )


def modelled() -> str:
    """Parameters of modelled dies: measured against assumed."""
    measured, assumed = load_calibration("measured").default, load_calibration("default").default

    def value(part: Calibration, name: str) -> float:
        kind, _, rest = name.partition(".")
        if kind == "compute":
            return next(found for key, found in part.compute.items() if key.value == rest)
        if kind == "memory":
            return part.memory[rest]
        return float(next(getattr(part, name + unit) for unit in ("", "_s", "_bytes") if hasattr(part, name + unit)))

    rows = [
        (f"`{name}`", f"{value(measured, name):.3g}", f"{low:.3g} – {high:.3g}", f"{value(assumed, name):.3g}")
        for name, (low, high) in measured.intervals.items()
    ]
    return table(("parameter (SI units)", "`measured`", "90 % interval", "`default` (assumed)"), rows)


def front() -> str:
    """The hydra-24 front under three calibrations."""
    with FRONT.open(encoding="utf-8") as stream:
        read = list(csv.DictReader(stream))
    rows = []
    for row in sorted(read, key=lambda row: int(row["rank_measured"])):
        mix = "/".join(row[name] for name in ("hbm", "Ap", "Ad", "Mp", "Md"))
        cells = [
            f"{row[f'rate_{name}']} (rank {row[f'rank_{name}']}{', front' if row[f'front_{name}'] == '1' else ''})"
            for name in ("measured", "default", "roofline")
        ]
        rows.append((mix, *cells, f"{row['rate_low']} – {row['rate_high']}", row["best_share"]))
    names = ("HBM/Ap/Ad/Mp/Md", "`measured`", "`default`", "one efficiency", "90 % of draws", "first in share of draws")
    moved = sum(len({row[f"rank_{name}"] for name in ("measured", "default", "roofline")}) > 1 for row in read)
    left = sum(len({row[f"front_{name}"] for name in ("measured", "default", "roofline")}) > 1 for row in read)
    return table(names, rows) + (
        f"\nSaturation throughput in tokens/s.  Of {len(read)} designs on one of the three fronts {moved} change rank "
        "and "
        f"{left} are not on all three.\n"
    )


def accesses(fits: FittedChips) -> str:
    """Share of the bandwidth by size and number of accesses."""
    rows = []
    for chip in ("h100", "b200"):
        bandwidth = chip_figures(chip).memory_bytes_per_s
        for form, key, what, sizes in (
            ("decode-attention", "decode-attention", "KV of a sequence and head", (64, 512, 4096)),
            ("state-update", "state-update-gdn", "state, read and written", (128,)),
        ):
            for size in sizes:
                found = [
                    access_share(form, fits.chips[chip][key].parameters, bandwidth, 1024.0 * size, count)
                    for count in (8.0, 64.0, 512.0, 8192.0)
                ]
                cells = [f"{each.value:.2f} ({each.low:.2f} – {each.high:.2f})" for each in found]
                rows.append((chip, what, f"{size} KiB", *cells))
    return table(("chip", "access", "size", "8 side by side", "64", "512", "8,192"), rows)


def multichip() -> str:
    """Serving on several chips by the package simulator: own parameters, and signed errors."""
    with SOLVED.open(encoding="utf-8") as stream:
        own = [
            (row["machine"], f"`{row['parameter']}`", row["value"], row["unit"], row["row"]) for row in _read(stream)
        ]
    with MULTICHIP.open(encoding="utf-8") as stream:
        rows = [
            (
                *(row[name] for name in ("machine", "model", "what", "input", "output", "batch", "seconds")),
                *(signed(float(row[name])) if row[name] else "" for name in ("measured", "unchanged")),
                "solved on" if row["use"] else signed(float(row["own"])),
            )
            for row in _read(stream)
        ]
    loads = ("machine", "model", "what", "tokens in", "out", "batch", "published, s")
    return (
        table(("machine", "parameter", "value", "unit", "solved on"), own)
        + "\n"
        + table((*loads, "`measured`", "newer software", "own"), rows)
    )


def _read(stream: TextIO) -> list[dict[str, str]]:
    return list(csv.DictReader(stream))


def page() -> str:
    """The whole page."""
    fits = read_fits()
    plots = "\n\n".join(f"![residuals of {path.stem}](figures/residuals-{path.stem}.png)" for path in shipped_files())
    text = (DOCS / "calibration_page.txt").read_text(encoding="utf-8")
    parts = {
        "formulas": formulas(fits),
        "parameters": parameters(fits),
        "crossvalidated": crossvalidated(fits),
        "unseen": unseen(),
        "carried": carried(),
        "serving": serving(),
        "wafer": wafer(fits),
        "modelled": modelled(),
        "front": front(),
        "multichip": multichip(),
        "accesses": accesses(fits),
        "plots": plots,
    }
    for name, part in parts.items():
        text = text.replace(f"<<{name}>>\n", part if part.endswith("\n") else part + "\n")
    return NOTE + text


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--published", type=Path, help="folder of published tables")
    parser.add_argument("--plots", action="store_true", help="draw the residuals again")
    options = parser.parse_args(arguments)
    if options.published is not None:
        with UNSEEN.open("w", encoding="utf-8", newline="") as stream:
            writer = csv.writer(stream, lineterminator="\n")
            writer.writerow(["chip", "fit", "rows", "median", "mean", "p90", "worst", "bias", "covered"])
            writer.writerows(unseen_rows(options.published, read_fits()))
    if options.plots:
        write_residual_plots([fit(rows, draws=0) for path in shipped_files() for rows in read_profile(path)], FIGURES)
    (DOCS / "calibration.md").write_text(page(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
