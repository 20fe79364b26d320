"""The other libraries' side of each benchmark; run by the Python of `.venv-peers`."""
