"""The generators of `docs/reference/`, a module for each kind of page."""
