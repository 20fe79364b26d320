"""From the `env` key to something that makes environments."""

from __future__ import annotations

import dataclasses
import difflib
import importlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import gymnasium as gym

from dtrainer.config.errors import EnvError
from dtrainer.envs.context import EnvContext

EnvCreator = Callable[[EnvContext], gym.Env]

_registered: dict[str, EnvCreator] = {}


def register_env(name: str, creator: EnvCreator) -> None:
    """Make an environment known under a name for the `env` key.

    Parameters
    ----------
    name
        What the configuration says.
    creator
        Takes an `EnvContext`, returns a `gymnasium.Env`. It travels to the actors, so it may be
        a lambda or a function of the script itself.
    """
    _registered[name] = creator


@dataclass(frozen=True)
class EnvMaker:
    """Makes the environments of a run, here or in an actor.

    Attributes
    ----------
    name
        For messages and run names.
    creator
        Makes one from an `EnvContext`.
    max_episode_steps
        The time limit that the environment is registered with; the sampler keeps it.
    vector_spec
        Specification of an environment that steps many as one, if there is such.
    """

    name: str
    creator: EnvCreator
    max_episode_steps: int | None = None
    vector_spec: gym.envs.registration.EnvSpec | None = field(default=None, repr=False)

    def make(self, context: EnvContext) -> gym.Env:
        """Make one environment.

        Raises
        ------
        EnvError
            If the creator raises or returns something else.
        """
        try:
            env = self.creator(context)
        except Exception as error:
            raise EnvError(
                f"environment {self.name!r} could not be made: {type(error).__name__}: {error}",
                hint=_install_hint(error) or "env_config is passed to it as keyword arguments.",
            ) from error
        if not isinstance(env, gym.Env):
            raise EnvError(
                f"environment {self.name!r}: the creator returned a {type(env).__name__}, "
                "expected a gymnasium.Env",
            )
        return env

    def make_vector(self, num_envs: int, context: EnvContext) -> gym.vector.VectorEnv:
        """Make `num_envs` environments that step as one (needs `vector_spec`)."""
        assert self.vector_spec is not None
        return gym.make_vec(
            self.vector_spec,
            num_envs=num_envs,
            vectorization_mode=gym.VectorizeMode.VECTOR_ENTRY_POINT,
            **context,
        )


def resolve_env(env: Any) -> EnvMaker:
    """Find what the `env` key means.

    Parameters
    ----------
    env
        A registered name, a Gymnasium id (also `module:EnvId`), a dotted path `pkg.module.Class`,
        an environment class, or a callable that takes an `EnvContext`.

    Raises
    ------
    EnvError
        If there is no such environment; names the nearest ones.
    """
    if isinstance(env, EnvMaker):
        return env
    if isinstance(env, type) and issubclass(env, gym.Env):
        return EnvMaker(env.__name__, _ClassCreator(env))
    if callable(env):
        return EnvMaker(getattr(env, "__name__", type(env).__name__), env)
    if not isinstance(env, str):
        raise EnvError(f"env: expected a name, a class or a function, found {env!r}")
    if env in _registered:
        return EnvMaker(env, _registered[env])
    if env in gym.registry or ":" in env or "." not in env:
        return _from_gymnasium(env)
    return _from_path(env)


@dataclass(frozen=True)
class _ClassCreator:
    """Makes an environment of a class; `env_config` becomes keyword arguments."""

    cls: type[gym.Env]

    def __call__(self, context: EnvContext) -> gym.Env:
        return self.cls(**context)


@dataclass(frozen=True)
class _GymnasiumCreator:
    """Makes a registered environment without the wrappers whose work the sampler does.

    The time limit is kept by the sampler (`horizon`), order and types are checked by it.
    """

    spec: gym.envs.registration.EnvSpec

    def __call__(self, context: EnvContext) -> gym.Env:
        kwargs = {"disable_env_checker": True, **context}
        return gym.make(self.spec, max_episode_steps=-1, **kwargs)


def _from_gymnasium(env_id: str) -> EnvMaker:
    try:
        if ":" in env_id:
            module, _, env_id = env_id.partition(":")
            importlib.import_module(module)
        spec = gym.spec(env_id)
    except ModuleNotFoundError as error:
        raise EnvError(f"environment {env_id!r}: {error}", hint=_install_hint(error)) from error
    except gym.error.Error as error:
        raise _unknown(env_id, error) from error
    plain = dataclasses.replace(spec, order_enforce=False, max_episode_steps=None)
    return EnvMaker(
        env_id,
        _GymnasiumCreator(plain),
        spec.max_episode_steps,
        spec if spec.vector_entry_point else None,
    )


def _from_path(path: str) -> EnvMaker:
    module, _, name = path.rpartition(".")
    try:
        target = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise _unknown(path, error) from error
    maker = resolve_env(target)
    return dataclasses.replace(maker, name=name)


def _unknown(name: str, error: Exception) -> EnvError:
    # A version that is gone (CartPole-v9) is nearest to its own family, other versions first.
    known = [*_registered, *gym.registry]
    family = name.rpartition("-v")[0] or name
    nearest = [n for n in known if n.rpartition("-v")[0] == family]
    nearest += difflib.get_close_matches(name, [n for n in known if n not in nearest], n=3)
    hint = f"Did you mean {', '.join(nearest[:4])}?" if nearest else None
    if hint is None:
        hint = (
            "Names are Gymnasium ids (also module:EnvId), names given to register_env, or dotted "
            f"paths of classes. ({error})"
        )
    return EnvError(f"there is no environment {name!r}", hint=hint)


def _install_hint(error: Exception) -> str | None:
    text = str(error)
    for word, extra in (("box2d", "box2d"), ("mujoco", "mujoco"), ("ale", "atari")):
        if word in text.lower():
            return f"Install it with: pip install 'dtrainer[{extra}]'"
    return None
