"""Sample batches, their columns, and advantage estimates."""

from dtrainer.data.advantages import generalized_advantages
from dtrainer.data.batch import DEFAULT_POLICY_ID, Cuts, MultiAgentBatch, SampleBatch

__all__ = [
    "DEFAULT_POLICY_ID",
    "Cuts",
    "MultiAgentBatch",
    "SampleBatch",
    "generalized_advantages",
]
