"""The command group.  Commands are imported when they run, so that `--help` starts fast."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from dataclasses import dataclass

import click

from hydra_dse import __version__
from hydra_dse.errors import did_you_mean


@dataclass(frozen=True)
class Entry:
    """Where a command lives and its line in `--help`."""

    module: str
    attribute: str
    help: str


COMMANDS: dict[str, Entry] = {
    "sweep": Entry("hydra_dse.cli.sweep", "sweep", "Search the space of an experiment; writes a run directory."),
    "validate": Entry("hydra_dse.cli.validate", "validate", "Simulate the chosen designs of a run."),
    "robustness": Entry("hydra_dse.cli.robustness", "robustness", "How designs hold for other models and loads."),
    "compare": Entry("hydra_dse.cli.compare", "compare", "Designs or baselines side by side in simulation."),
    "variance": Entry("hydra_dse.cli.variance", "variance", "Which choices decide how good a design is."),
    "report": Entry("hydra_dse.cli.report", "report", "(Re)build the plots and the HTML report of a run."),
    "estimate": Entry("hydra_dse.cli.estimate", "estimate", "One design through the Markov-chain estimator."),
    "simulate": Entry("hydra_dse.cli.simulate", "simulate", "One design through the discrete-event simulator."),
    "explain": Entry("hydra_dse.cli.explain", "explain", "Why one bundle or design beats another."),
    "whatif": Entry("hydra_dse.cli.whatif", "whatif", "Simulate a bundle again with resources scaled."),
    "model": Entry("hydra_dse.cli.model", "model", "Parameters, caches, FLOPs and bytes of a model."),
    "card": Entry("hydra_dse.cli.card", "card", "Workload cards: check them, print their JSON Schema."),
    "trace": Entry("hydra_dse.cli.trace", "trace", "Metrics of traces, tables of many bundles, checks."),
    "calibrate": Entry("hydra_dse.cli.calibrate", "calibrate", "Fit physical parameters of chips to measured tables."),
    "bench": Entry("hydra_dse.cli.bench", "bench", "DABench-LLM metrics of measured profiles or of a modelled chip."),
    "diff": Entry("hydra_dse.cli.diff", "diff", "What changed between two runs, and why their fronts differ."),
    "export": Entry("hydra_dse.cli.export", "export", "A placed design as inputs of HotSpot, RapidChiplet or BookSim."),
    "pack": Entry("hydra_dse.cli.pack", "pack", "A run and the inputs it read as one reproducible archive."),
    "check": Entry("hydra_dse.cli.check", "check", "All faults of input files, cross-file ones included."),
    "schema": Entry("hydra_dse.cli.schema", "schema", "The JSON Schema of an input file, for editors."),
    "doctor": Entry("hydra_dse.cli.doctor", "doctor", "What a bug report needs: versions, machine, bundled data."),
    "list": Entry("hydra_dse.cli.listing", "listing", "What is bundled: models, workloads, chiplets, spaces, …"),
}


class LazyGroup(click.Group):
    """A group whose commands are imported on first use."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Names in the order of `COMMANDS`."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return a command."""
        entry = COMMANDS.get(cmd_name)
        if entry is None:
            return None
        command: click.Command = getattr(importlib.import_module(entry.module), entry.attribute)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Refuse an unknown command with a suggestion."""
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            raise click.UsageError(f"no command {args[0]!r}{did_you_mean(args[0], COMMANDS)}", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the command list without importing a command."""
        rows: Sequence[tuple[str, str]] = [(name, entry.help) for name, entry in COMMANDS.items()]
        with formatter.section("Commands"):
            formatter.write_dl(list(rows))


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(__version__, prog_name="hydra-dse")
def app() -> None:
    """Explore chiplet packages and runtime policies that serve hybrid Transformer-Mamba LLMs.

    The main job: `sweep` an experiment, `validate` its Pareto front in simulation, `report` the run.
    """
