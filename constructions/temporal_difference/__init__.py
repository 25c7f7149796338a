"""Temporal-difference evaluation from a minimal context (theory A): one module per theorem."""
