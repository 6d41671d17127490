"""Iteration times from the measured layer profile of a card: replays of real engines (`docs/simulators.md`)."""

from __future__ import annotations

from simulators.profiled.cost import EngineSteps, ProfiledSteps, Stack
from simulators.profiled.profile import LayerProfile, read_profile
from simulators.profiled.run_log import RecordedRun, read_run

__all__ = ["EngineSteps", "LayerProfile", "ProfiledSteps", "RecordedRun", "Stack", "read_profile", "read_run"]
