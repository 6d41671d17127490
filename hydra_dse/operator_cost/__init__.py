"""Time, bytes and energy of an operator on a die."""
