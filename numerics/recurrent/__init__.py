"""The recurrent theorems in floats."""
