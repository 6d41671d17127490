"""How good searches are: ours beside random draws, Optuna alone and pymoo, on spaces with and without a known front."""
