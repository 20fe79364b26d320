"""How long PPO takes to solve CartPole-v1: dtrainer, Stable-Baselines3 and RLlib.

Each trains until the mean return of its last 100 training episodes reaches 475, with the settings
that its own project publishes for CartPole: ours are `examples/cartpole-ppo.yaml`, those of
Stable-Baselines3 are the RL Zoo's, those of RLlib its tuned example's. Imports and the start of
processes are not counted, but for the last row: the time from typing `dtrainer train` to its first
result. Run it as

    python -m benchmarks.ppo_cartpole
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
    Program("dtrainer", "dtrainer", "benchmarks.ours.ppo_cartpole"),
    Program("sb3", "Stable-Baselines3", "benchmarks.peers.sb3_ppo_cartpole"),
    Program("rllib", "RLlib", "benchmarks.peers.rllib_ppo_cartpole"),
    Program(
        "first_result", "dtrainer train, command to first result", "benchmarks.ours.first_result"
    ),
]

WANTED_OF_SB3 = 0.5
WANTED_FIRST_RESULT_S = 5.0
TIMEOUT_S = 900.0


def times(runs: list[Measurement]) -> list[float]:
    """List the seconds that the runs took; one that gave up unsolved took infinitely long."""
    return [run["seconds"] if run.get("solved", True) else float("inf") for run in runs]


def describe(seconds: float) -> str:
    return f"{seconds:.1f}" if seconds < float("inf") else "unsolved"


def learning_rows(found: dict[str, list[Measurement]]) -> Iterator[list[str]]:
    for program in PROGRAMS:
        runs = found.get(program.key, [])
        if program.key == "first_result" or not runs:
            continue
        mine = times(runs)
        row = [
            program.label,
            f"{sum(run['solved'] for run in runs)} of {len(runs)}",
            describe(statistics.median(mine)),
            f"{describe(min(mine))} to {describe(max(mine))}",
            f"{statistics.median(run['environment_steps'] for run in runs):,.0f}",
        ]
        theirs = times(found.get("sb3", []))
        comparable = bool(theirs) and max(mine + theirs) < float("inf")
        ratio = median_ratio(mine, theirs) if comparable else None
        row.append("" if ratio is None else f"{ratio:.2f} ×")
        if program.key != "dtrainer" or not theirs:
            row.append("")
        else:
            met = ratio is not None and ratio <= WANTED_OF_SB3
            row.append(verdict(met, f"≤ {WANTED_OF_SB3:g} × SB3"))
        yield row


def first_result_row(found: dict[str, list[Measurement]]) -> Iterator[list[str]]:
    mine = times(found["first_result"])
    middle = statistics.median(mine)
    yield [
        "dtrainer train, command to first result",
        "",
        f"{middle:.1f}",
        f"{min(mine):.1f} to {max(mine):.1f}",
        "",
        "",
        verdict(middle < WANTED_FIRST_RESULT_S, f"< {WANTED_FIRST_RESULT_S:g} s"),
    ]


def main() -> None:
    parser = common_arguments(__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument(
        "--without", nargs="+", default=[], choices=["sb3", "rllib"], help="leave out a slow peer"
    )
    arguments = parser.parse_args()
    chosen = available(program for program in PROGRAMS if program.key not in arguments.without)
    found = run_interleaved(chosen, seeds_of(arguments), [], timeout=TIMEOUT_S)
    if arguments.json:
        print(json.dumps(found, indent=2))
        return
    print_table(
        "PPO on CartPole-v1 until the last 100 episodes' mean return is 475",
        ["program", "solved", "seconds", "range", "steps", "to SB3", "wanted"],
        [*learning_rows(found), *first_result_row(found)],
    )


if __name__ == "__main__":
    main()
