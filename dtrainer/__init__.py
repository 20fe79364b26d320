"""dtrainer: a reinforcement-learning trainer on Dask for Slurm, PBS and one machine."""

__version__ = "0.1.0"
