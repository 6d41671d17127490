"""Service profiles of placed designs."""
