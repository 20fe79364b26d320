"""dtrainer's side of each benchmark: one process and one JSON line a measurement."""
