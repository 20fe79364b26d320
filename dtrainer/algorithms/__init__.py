"""One file an algorithm, and their registry."""
