"""dtrainer: steps/s of PPO's sampling from two actors on a local Dask cluster."""

from __future__ import annotations

from benchmarks.measure import (
    HIDDEN_LAYERS,
    STEPS_PER_ENV,
    measure_rate,
    report,
    sampling_arguments,
)
from dtrainer import __version__
from dtrainer.algorithms.ppo import PPO

WORKERS = 2


def main() -> None:
    parser = sampling_arguments(__doc__)
    parser.add_argument("--vectorize-mode", choices=["sync", "self"], default="sync")
    arguments = parser.parse_args()
    batch = STEPS_PER_ENV * arguments.envs * WORKERS
    trainer = PPO(
        env="CartPole-v1",
        config={
            "num_workers": WORKERS,
            "num_envs_per_worker": arguments.envs,
            "rollout_fragment_length": STEPS_PER_ENV,
            "train_batch_size": batch,
            "sgd_minibatch_size": batch,
            "model": {"fcnet_hiddens": HIDDEN_LAYERS, "fcnet_activation": "tanh"},
            "vectorize_mode": arguments.vectorize_mode,
            "seed": arguments.seed,
        },
    )
    try:
        measured = measure_rate(
            lambda: trainer.workers.sample(batch).count, arguments.seconds, arguments.warm_up
        )
    finally:
        trainer.stop()
    report(program="dtrainer", version=__version__, **measured)


if __name__ == "__main__":
    main()
