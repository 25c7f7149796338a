"""Temporal-difference evaluation in floats, balls and logs: one module per theorem."""
