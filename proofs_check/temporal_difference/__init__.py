"""Certificates of the temporal-difference theorems: one module per theorem, named as in `constructions`."""
