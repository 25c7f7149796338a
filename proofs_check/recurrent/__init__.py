"""Certificates of the recurrent theorems."""
