"""dtrainer: seconds until PPO solves CartPole-v1 as examples/cartpole-ppo.yaml sets it."""

from __future__ import annotations

import time
from pathlib import Path

from benchmarks.measure import SOLVED_EPISODES, SOLVED_RETURN, learning_arguments, report
from dtrainer import __version__
from dtrainer.algorithms import get_config_class
from dtrainer.algorithms.ppo import PPO
from dtrainer.config import load_experiments

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "cartpole-ppo.yaml"
TUNED_STEPS = 100_000


def main() -> None:
    arguments = learning_arguments(__doc__).parse_args()
    [experiment] = load_experiments(
        EXAMPLE, [f"seed={arguments.seed}"], config_class=get_config_class
    )
    trainer = PPO(config=experiment.config, env=experiment.env)
    steps, mean_return, solved = 0, float("nan"), False
    try:
        begin = time.perf_counter()
        while steps < (arguments.max_steps or TUNED_STEPS) and not solved:
            result = trainer.train()
            steps, mean_return = result["timesteps_total"], result["episode_reward_mean"]
            solved = result["episodes_total"] >= SOLVED_EPISODES and mean_return >= SOLVED_RETURN
        seconds = time.perf_counter() - begin
    finally:
        trainer.stop()
    report(
        program="dtrainer",
        version=__version__,
        seed=arguments.seed,
        solved=solved,
        seconds=seconds,
        environment_steps=steps,
        episode_reward_mean=mean_return,
    )


if __name__ == "__main__":
    main()
