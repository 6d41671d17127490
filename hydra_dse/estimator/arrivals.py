"""One number for the burstiness of an arrival process.

A renewal process has the squared CV of its gaps.  A two-state MMPP has the limit of its index of dispersion for
counts, `1 + 2·π₁π₂(λ₁ − λ₂)²/(λ̄·(r₁ + r₂))` (Fischer and Meier-Hellstern 1993), with phase rates `r = 1/sojourn`.
"""

from __future__ import annotations

from hydra_dse.workload.nouns import ArrivalStatistics

# Beyond this a diffusion scaled by one number says nothing; the estimate carries a note.
LARGEST_SCV = 400.0


def effective_scv(arrivals: ArrivalStatistics) -> float:
    """Squared coefficient of variation that the queues see."""
    if len(arrivals.phases) != 2:
        return min(arrivals.cv**2, LARGEST_SCV)
    (rate1, stay1), (rate2, stay2) = arrivals.phases
    share1 = stay1 / (stay1 + stay2)
    mean = share1 * rate1 + (1.0 - share1) * rate2
    leaving = 1.0 / stay1 + 1.0 / stay2
    return min(1.0 + 2.0 * share1 * (1.0 - share1) * (rate1 - rate2) ** 2 / (mean * leaving), LARGEST_SCV)
