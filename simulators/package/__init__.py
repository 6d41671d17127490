"""Iterations on placed chiplets: their duration from the exact composition, and the bytes, energy and busy time."""

from __future__ import annotations

from simulators.package.coefficients import PlacedHardware
from simulators.package.cost import PackageCost
from simulators.package.ledger import Ledger, ledger_of

__all__ = ["Ledger", "PackageCost", "PlacedHardware", "ledger_of"]
