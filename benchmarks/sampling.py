"""How many CartPole steps a second PPO samples: dtrainer, RLlib and Stable-Baselines3.

Every program acts with the same network (two tanh layers of 64), samples for the same time after
a warm-up and learns nothing; start-up is not counted. RLlib and dtrainer sample in two processes
of 32 environments, Stable-Baselines3 in one process of 32; more of them make ordinary environments
no faster, but one that computes many of itself at once costs little more for 256 than for 32, so it
is measured with both. The rows of plain stepping are what
one process reaches with no policy at all. Run it as

    python -m benchmarks.sampling
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterator

from benchmarks.programs import (
    Measurement,
    Program,
    available,
    common_arguments,
    median_ratio,
    print_table,
    run_interleaved,
    seeds_of,
    verdict,
)

PROGRAMS = [
    Program("stepping", "plain stepping, 1 process", "benchmarks.ours.env_stepping"),
    Program(
        "stepping_self",
        "plain stepping, self-vectorised, 1 process",
        "benchmarks.ours.env_stepping",
        ("--vectorize-mode", "self"),
    ),
    Program("sb3", "Stable-Baselines3, 1 × 32", "benchmarks.peers.sb3_sampling"),
    Program("rllib", "RLlib, 2 × 32", "benchmarks.peers.rllib_sampling"),
    Program("dtrainer", "dtrainer, 2 × 32", "benchmarks.ours.sampling"),
    Program(
        "dtrainer_self",
        "dtrainer, 2 × 32 self-vectorised",
        "benchmarks.ours.sampling",
        ("--vectorize-mode", "self"),
    ),
    Program(
        "dtrainer_wide",
        "dtrainer, 2 × 256 self-vectorised",
        "benchmarks.ours.sampling",
        ("--vectorize-mode", "self", "--envs", "256"),
    ),
]

WANTED_OVER_RLLIB = {"dtrainer": 4.0, "dtrainer_wide": 15.0}
BOUND = {"dtrainer": "stepping", "dtrainer_self": "stepping_self"}


def rates(found: dict[str, list[Measurement]], key: str) -> list[float]:
    """List the steps/s of a program's runs."""
    return [run["steps_per_second"] for run in found.get(key, [])]


def table_rows(found: dict[str, list[Measurement]]) -> Iterator[list[str]]:
    for program in PROGRAMS:
        mine = rates(found, program.key)
        if not mine:
            continue
        row = [
            program.label,
            f"{statistics.median(mine):,.0f}",
            f"{min(mine):,.0f} to {max(mine):,.0f}",
        ]
        for peer in ("sb3", "rllib"):
            theirs = rates(found, peer)
            row.append(f"{median_ratio(mine, theirs):.2f} ×" if theirs else "")
        bound = rates(found, BOUND.get(program.key, ""))
        row.append(f"{median_ratio(mine, bound):.2f} ×" if bound else "")
        wanted, theirs = WANTED_OVER_RLLIB.get(program.key), rates(found, "rllib")
        if wanted is None or not theirs:
            row.append("")
        else:
            row.append(verdict(median_ratio(mine, theirs) >= wanted, f"≥ {wanted:g} × RLlib"))
        yield row


def main() -> None:
    parser = common_arguments(__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--seconds", type=float, default=10.0, help="seconds to measure a program")
    arguments = parser.parse_args()
    found = run_interleaved(
        available(PROGRAMS),
        seeds_of(arguments),
        ["--seconds", str(arguments.seconds)],
        timeout=arguments.seconds + 180.0,
    )
    if arguments.json:
        print(json.dumps(found, indent=2))
        return
    print_table(
        "Sampling CartPole-v1 (environment steps a second, medians)",
        ["program", "steps/s", "range", "to SB3", "to RLlib", "to the bound", "wanted"],
        table_rows(found),
    )


if __name__ == "__main__":
    main()
