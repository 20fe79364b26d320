"""Trainer, learners, evaluation, metrics, checkpoints, stopping."""
