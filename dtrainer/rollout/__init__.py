"""Stepping environments with policies: worker, sampler, filters, journal, worker set."""

ACTOR_MODULES = ("gymnasium", "dtrainer.rollout.worker")
"""What an actor imports; a local cluster imports it once for all."""
