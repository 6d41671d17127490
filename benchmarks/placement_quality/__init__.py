"""How good placements are: against the exact optimum, annealing and baselines, and what they are worth in service."""
