"""Named mutants of the recurrent wing."""

REFUTED: dict[str, list[str]] = {}
