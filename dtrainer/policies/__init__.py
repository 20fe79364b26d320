"""The acting side: observations in, actions out."""

from dtrainer.policies.actions import ActionPipeline
from dtrainer.policies.policy import Policy, PolicyOutput

__all__ = ["ActionPipeline", "Policy", "PolicyOutput"]
