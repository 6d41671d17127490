"""Topologies and routes."""
