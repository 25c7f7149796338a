"""How people use it: the catalogue, the command line, results and reports."""

__version__ = "0.1.0"
