"""Dies, memory stacks, links, packages and their calibration."""
