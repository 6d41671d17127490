"""Two pools and the roles of their dies at one rate."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hydra_dse.estimator.disaggregated_tables import Tables
from hydra_dse.estimator.role_chain import RoleState, phases_of
from hydra_dse.estimator.tandem import Balance
from hydra_dse.profile.nouns import RoleProfile

FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class RoleBalance:
    """Both pools and their roles at one rate.

    Attributes:
        balance: of the pools, as of designs that never change.
        roles: stationary state of the chain.
        rise_s, fall_s: mean time of a change, shape (n, states − 1).
    """

    balance: Balance
    tables: Tables
    roles: RoleState
    rise_s: FloatArray
    fall_s: FloatArray


def mean_state(found: RoleBalance, roles: RoleProfile) -> FloatArray:
    """Mean units that serve prefill, shape (n,): dies between two roles serve neither."""
    return np.asarray(found.roles.share @ np.array([p.prefill - roles.native for p in phases_of(roles.size)]))
