"""Tables of `model show`."""

from __future__ import annotations
