"""Catalogue rows, a module for each group of theorems."""
