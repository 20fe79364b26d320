"""`dtrainer evaluate`: play episodes with a checkpoint's policy."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table


def command(
    checkpoint: Annotated[
        Path, typer.Argument(help="A checkpoint, or a run (then its newest).", show_default=False)
    ],
    episodes: Annotated[int, typer.Option(min=1, help="Episodes to play, exactly.")] = 10,
    explore: Annotated[
        bool, typer.Option("--explore", help="Sample actions instead of taking the best.")
    ] = False,
    video: Annotated[Path | None, typer.Option(help="Folder for a video of each episode.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Play episodes with a trained policy, on seeds that training has not used."""
    import numpy as np

    from dtrainer.algorithms import get_trainer_class
    from dtrainer.training.checkpoint import read_metadata
    from dtrainer.training.evaluation import evaluate

    metadata = read_metadata(checkpoint)
    trainer_class = get_trainer_class(str(metadata["algorithm"]))
    changes: dict[str, Any] = {"num_workers": 0, "num_gpus": 0, "device": "cpu"}
    with trainer_class.from_checkpoint(checkpoint, changes) as trainer:
        played = evaluate(trainer, episodes, explore=explore, video=video)
    summary = {
        "checkpoint": str(checkpoint),
        "episodes": episodes,
        "episode_reward_mean": float(played.returns.mean()),
        "episode_reward_std": float(np.std(played.returns)),
        "episode_reward_min": float(played.returns.min()),
        "episode_reward_max": float(played.returns.max()),
        "episode_len_mean": float(played.lengths.mean()),
    }
    if as_json:
        typer.echo(json.dumps({**summary, "returns": played.returns.tolist()}))
        return
    table = Table(title=f"{metadata['algorithm']} on {metadata['env']}", show_header=False)
    table.add_row("checkpoint", str(checkpoint))
    table.add_row("episodes", str(episodes))
    table.add_row(
        "return",
        f"{summary['episode_reward_mean']:.1f} ± {summary['episode_reward_std']:.1f} "
        f"(min {summary['episode_reward_min']:.1f}, max {summary['episode_reward_max']:.1f})",
    )
    table.add_row("length", f"{summary['episode_len_mean']:.1f}")
    if video is not None:
        table.add_row("videos", str(video))
    Console().print(table)
