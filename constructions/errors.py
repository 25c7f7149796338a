"""The one exception that a user sees: a sentence, never a traceback."""


class BadInput(ValueError):
    """An input that cannot be used; `str()` is one sentence.

    The sentence names the construction, block, file or column, what was expected and what was found.
    The command line prints it and exits with code 2.
    """


class Unsupported(TypeError):
    """An arithmetic was asked for an operation that it cannot do exactly (for example a square root in Q)."""
