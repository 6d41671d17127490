"""Service profiles of placed designs."""

from __future__ import annotations

from hydra_dse.profile.build import build_profile
from hydra_dse.profile.nouns import Contention, PoolModel, ServiceProfile
from hydra_dse.profile.reference import ReferencePool

__all__ = ["Contention", "PoolModel", "ReferencePool", "ServiceProfile", "build_profile"]
