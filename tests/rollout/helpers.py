import numpy as np

from dtrainer.config import TrainerConfig
from dtrainer.data import DEFAULT_POLICY_ID
from dtrainer.envs import probe_env, resolve_env
from dtrainer.rollout.postprocessing import Advantages
from dtrainer.rollout.worker import RolloutWorker, SyncUpdate, WorkerSpec


def make_worker(env, *, entropy=17, index=1, postprocess=None, weights=0.5, **config):
    """A worker with random weights; `config` over small defaults."""
    keys = {
        "num_workers": 1,
        "rollout_fragment_length": 8,
        "model": {"fcnet_hiddens": [8]},
        **config,
    }
    keys["train_batch_size"] = keys["rollout_fragment_length"] * keys.get("num_envs_per_worker", 1)
    config = TrainerConfig.from_dict(keys)
    maker = resolve_env(env)
    spaces = probe_env(maker, config)
    spec = WorkerSpec(maker, config, *spaces, entropy, postprocess)
    worker = RolloutWorker(spec, index)
    give_weights(worker, weights)
    return worker


def give_weights(worker, scale=0.5, seed=0):
    policy = worker.policies[DEFAULT_POLICY_ID]
    size = policy.spec.layout.size
    flat = np.random.default_rng(seed).normal(size=size).astype(np.float32) * scale
    worker.take_over(SyncUpdate({DEFAULT_POLICY_ID: (policy.version + 1, flat)}, {}))


def rows(fragment):
    return fragment.batch[DEFAULT_POLICY_ID]


def assert_same(one, other):
    """Two fragments, bit for bit."""
    a, b = rows(one), rows(other)
    assert list(a.keys()) == list(b.keys())
    for name in a:
        np.testing.assert_array_equal(a[name], b[name], err_msg=name)
    np.testing.assert_array_equal(a["new_obs"], b["new_obs"])
    np.testing.assert_array_equal(one.episode_returns, other.episode_returns)
    np.testing.assert_array_equal(one.episode_lengths, other.episode_lengths)


ADVANTAGES = Advantages(0.99, 0.95)
