"""A simulation by references: made once, run with or without a sink, and said again as a command."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

from hydra_dse.studies.named_files import anywhere, override_anywhere

if TYPE_CHECKING:
    from hydra_dse.design.evaluator import EvaluationOptions
    from hydra_dse.design.nouns import Design
    from hydra_dse.hardware.calibration import CalibrationSet
    from hydra_dse.records import RecordSink
    from hydra_dse.results import Evaluation, Violation
    from hydra_dse.workload.nouns import Workload

WARMUP_SHARE = 0.1
"""Of a simulation that does not say."""


@dataclass(frozen=True)
class DesignSimulation:
    """One design under one workload, as `hydra-dse simulate` takes it.

    Attributes:
        workload: None = that of the run whose design it is (`RUN:ID`).
        warmup_share: share of the requests that only warm a run up.
        window_share: where in a replayed record the first window begins; no part of the command.
    """

    design: str
    workload: str | None
    model: str | None = None
    calibration: str = "default"
    requests: int = 2000
    replications: int = 3
    seed: int = 0
    detail: str = "ledger"
    simulator: str = "serving"
    overrides: tuple[str, ...] = field(default=())
    target_ci: float | None = None
    target_metrics: tuple[str, ...] = ()
    warmup_share: float = WARMUP_SHARE
    window_share: float = 0.0

    @cached_property
    def pair(self) -> tuple[Design, Workload]:
        """The design as it was given and the workload.

        Raises:
            InputError: a fault of an input.
        """
        from hydra_dse.studies.pairs import load_pair

        return load_pair(self.design, self.workload, self.model, self.overrides)

    @cached_property
    def placed(self) -> tuple[Design, tuple[Violation, ...]]:
        """The placed design, and why it cannot be placed where it cannot."""
        from hydra_dse.placement import place_design
        from hydra_dse.search.estimating import PLACEMENT_SEED
        from hydra_dse.workload import served

        design, workload = self.pair
        placed, violations = place_design(design, [kind.model for kind in served(workload)], PLACEMENT_SEED)
        return placed, tuple(violations)

    @cached_property
    def rates(self) -> CalibrationSet:
        """The calibration."""
        from hydra_dse.config import load_calibration

        return load_calibration(self.calibration)

    @property
    def options(self) -> EvaluationOptions:
        """How long and how often."""
        from hydra_dse.design.evaluator import EvaluationOptions

        options = EvaluationOptions(
            requests=self.requests,
            replications=self.replications,
            warmup_share=self.warmup_share,
            detail=self.detail,
            target_ci=self.target_ci,
            window_share=self.window_share,
        )
        return replace(options, target_metrics=self.target_metrics) if self.target_metrics else options

    @property
    def title(self) -> str:
        """What it is, for people."""
        design, workload = self.pair
        return f"{design.name or self.design} under {workload.name}"

    def evaluate(self, sink: RecordSink | None = None, design: Design | None = None) -> Evaluation:
        """Run it; `design`: a placed design instead of its own.

        Raises:
            InputError: a fault of an input, or no such simulator.
        """
        from hydra_dse.results import Evaluation
        from hydra_dse.studies import find_simulator

        workload, engine = self.pair[1], find_simulator(self.simulator)
        placed, violations = self.placed
        if violations:
            return Evaluation("simulated", metrics={}, violations=violations)
        return engine.evaluate([design or placed], workload, self.rates, self.options, self.seed, sink)[0]

    def provenance(self) -> dict[str, object]:
        """Where its result comes from, as `--json` says it."""
        from hydra_dse.workload import served

        design, workload = self.pair
        return {
            "design": self.design, "identity": design.identity, "workload": self.workload,
            "model": ", ".join(kind.model.name for kind in served(workload)), "calibration": self.calibration,
            "overrides": list(self.overrides), "simulator": self.simulator, "requests": self.requests,
            "replications": self.replications, "seed": self.seed, "detail": self.detail, **self._stated(),
        }  # fmt: skip

    def _stated(self) -> dict[str, object]:
        """How narrow intervals are to be and how long the warm-up, where that is stated."""
        stated: dict[str, object] = {}
        if self.target_ci is not None:
            stated |= {"target_ci": self.target_ci, "target_metrics": list(self.target_metrics)}
        if self.warmup_share != WARMUP_SHARE:
            stated["warmup_share"] = self.warmup_share
        return stated

    def command(self) -> tuple[str, ...]:
        """The words that run it again from any folder."""
        words = ["simulate", anywhere(self.design)]
        if self.workload is not None:
            words += ["--workload", anywhere(self.workload)]
        if self.model is not None:
            words += ["--model", anywhere(self.model)]
        words += ["--calibration", anywhere(self.calibration), "--requests", str(self.requests)]
        words += ["--replications", str(self.replications), "--seed", str(self.seed), "--detail", self.detail]
        words += ["--simulator", self.simulator]
        if self.warmup_share != WARMUP_SHARE:
            words += ["--warmup-share", repr(self.warmup_share)]
        if self.target_ci is not None:
            words += ["--target-ci", str(self.target_ci)]
        for name in self.target_metrics:
            words += ["--target-metric", name]
        for override in self.overrides:
            words += ["--set", override_anywhere(override)]
        return tuple(words)

    def settings(self) -> dict[str, object]:
        """The same by name, from which it can be made again."""
        return {
            "design": anywhere(self.design),
            "workload": None if self.workload is None else anywhere(self.workload),
            "model": None if self.model is None else anywhere(self.model),
            "calibration": anywhere(self.calibration), "requests": self.requests,
            "replications": self.replications, "seed": self.seed, "detail": self.detail,
            "simulator": self.simulator,
            "overrides": [override_anywhere(override) for override in self.overrides], **self._stated(),
        }  # fmt: skip
