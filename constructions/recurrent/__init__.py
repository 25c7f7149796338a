"""Recurrent nets: the gated delta rule, and re-scanning the past."""
