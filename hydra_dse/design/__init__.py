"""Designs, search spaces and experiments."""
