"""Busy shares and dynamic power of a package over a window, from the ledgers of its pools."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from simulators.package.ledger import Ledger


def busy_shares(ledgers: Sequence[Ledger], seconds: float) -> dict[str, float]:
    """Return utilisation by die group, of the busiest memory site and link, and the dynamic power in W.

    Args:
        ledgers: of every pool, over the same window.
        seconds: length of the window.
    """
    shares: dict[str, float] = {}
    for ledger in ledgers:
        for name, busy in ledger.die_s.items():
            shares[f"utilization_{name}"] = shares.get(f"utilization_{name}", 0.0) + busy / seconds
    sites = np.sum([ledger.site_s for ledger in ledgers], axis=0)
    links = np.sum([ledger.link_s for ledger in ledgers], axis=0)
    shares["hbm_utilization"] = float(sites.max(initial=0.0)) / seconds
    shares["noi_utilization_max"] = float(links.max(initial=0.0)) / seconds
    shares["dynamic_power_w"] = sum(ledger.energy_j for ledger in ledgers) / seconds
    return shares
