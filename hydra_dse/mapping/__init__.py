"""Operators to dies, operands to memory."""
