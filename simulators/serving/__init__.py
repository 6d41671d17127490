"""Request-level simulation."""
