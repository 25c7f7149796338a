"""Online learning: algorithms whose whole state lives in the context."""
