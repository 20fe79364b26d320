"""What a run writes and shows: records, curves, progress."""
