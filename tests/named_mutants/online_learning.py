"""Named mutants of the online-learning wing."""

REFUTED: dict[str, list[str]] = {}
