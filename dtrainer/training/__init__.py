"""Trainer, learners, metrics, checkpoints, and the loop that runs an experiment."""
