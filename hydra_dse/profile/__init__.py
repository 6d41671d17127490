"""Service profiles of placed designs."""

from __future__ import annotations

from hydra_dse.profile.build import build_profile, kind_of
from hydra_dse.profile.nouns import Contention, PoolModel, RoleProfile, ServiceProfile
from hydra_dse.profile.reference import ReferencePool

__all__ = ["Contention", "PoolModel", "ReferencePool", "RoleProfile", "ServiceProfile", "build_profile", "kind_of"]
