"""Experience on disk."""
