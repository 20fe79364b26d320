"""Networks, the catalog that picks them, and action distributions."""

from dtrainer.models.catalog import action_distribution, actor_critic_spec
from dtrainer.models.distributions import ActionDistribution, Categorical, DiagGaussian
from dtrainer.models.spec import ActorCriticSpec

__all__ = [
    "ActionDistribution",
    "ActorCriticSpec",
    "Categorical",
    "DiagGaussian",
    "action_distribution",
    "actor_critic_spec",
]
