"""Sample batches: columns of numpy arrays, one row a transition."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dtrainer.data import columns

Array = NDArray[Any]

DEFAULT_POLICY_ID = "default_policy"


@dataclass(frozen=True)
class Cuts:
    """The rows whose successor is not the next row, and their successors.

    Attributes
    ----------
    rows
        Row numbers in ascending order, int64 `[K]`.
    obs
        The observation that followed each of them, `[K, ...]`.
    """

    rows: NDArray[np.int64]
    obs: Array


class SampleBatch:
    """Columns of equal length, one row a transition.

    Rows of one trajectory stand together in time order, so `new_obs` is not stored: it is the
    next row's observation, and `cuts` holds the successors of the rows where that is not so.

    Parameters
    ----------
    data
        Column name to array `[B, ...]`.
    cuts
        What rebuilds `new_obs`; None where the order of the rows was lost.

    Raises
    ------
    ValueError
        If the columns differ in length.
    """

    def __init__(self, data: Mapping[str, Array], cuts: Cuts | None = None) -> None:
        self._data = dict(data)
        self.cuts = cuts
        lengths = {name: len(column) for name, column in self._data.items()}
        if len(set(lengths.values())) > 1:
            raise ValueError(f"columns of a sample batch differ in length: {lengths}")
        self.count = next(iter(lengths.values()), 0)

    def __len__(self) -> int:
        return self.count

    def __contains__(self, name: object) -> bool:
        return name in self._data or (name == columns.NEW_OBS and self.cuts is not None)

    def __getitem__(self, name: str) -> Array:
        if name == columns.NEW_OBS and name not in self._data:
            return self._new_obs()
        return self._data[name]

    def __setitem__(self, name: str, column: Array) -> None:
        if self._data and len(column) != self.count:
            raise ValueError(f"column {name!r} has {len(column)} rows, the batch {self.count}")
        self._data[name] = column
        self.count = len(column)

    def __iter__(self) -> Iterator[str]:
        return iter(self._data)

    def __repr__(self) -> str:
        return f"SampleBatch({self.count} rows: {', '.join(self._data)})"

    def keys(self) -> Iterable[str]:
        """Names of the stored columns."""
        return self._data.keys()

    def items(self) -> Iterable[tuple[str, Array]]:
        """Name and array of each stored column."""
        return self._data.items()

    @property
    def nbytes(self) -> int:
        """Size of all arrays, bytes."""
        cuts = self.cuts.rows.nbytes + self.cuts.obs.nbytes if self.cuts else 0
        return cuts + sum(column.nbytes for column in self._data.values())

    def rows(self, index: Array | slice) -> SampleBatch:
        """Select rows; `new_obs` stays only if it is a stored column.

        Parameters
        ----------
        index
            A slice, row numbers or a mask `[B]`.
        """
        return SampleBatch({name: column[index] for name, column in self._data.items()})

    def _new_obs(self) -> Array:
        if self.cuts is None:
            raise KeyError("new_obs: the order of the rows was lost, and no such column is stored")
        new_obs = np.empty_like(self._data[columns.OBS])
        new_obs[:-1] = self._data[columns.OBS][1:]
        new_obs[self.cuts.rows] = self.cuts.obs
        return new_obs

    @staticmethod
    def concat(batches: Sequence[SampleBatch]) -> SampleBatch:
        """Put batches with the same columns one behind the other, in one copy."""
        if len(batches) == 1:
            return batches[0]
        first = batches[0]
        data = {name: np.concatenate([b._data[name] for b in batches]) for name in first}
        all_cuts = [batch.cuts for batch in batches]
        cuts = None
        if all(c is not None for c in all_cuts):
            starts = np.cumsum([0, *(batch.count for batch in batches[:-1])])
            cuts = Cuts(
                np.concatenate([c.rows + s for c, s in zip(all_cuts, starts, strict=True) if c]),
                np.concatenate([c.obs for c in all_cuts if c]),
            )
        return SampleBatch(data, cuts)


class MultiAgentBatch:
    """The batches of all policies over the same stretch of environment steps.

    Parameters
    ----------
    policy_batches
        Policy id to its batch. A single agent is the case of one.
    env_steps
        Environment steps in the batch; with one agent its number of rows.
    """

    def __init__(self, policy_batches: Mapping[str, SampleBatch], env_steps: int) -> None:
        self.policy_batches = dict(policy_batches)
        self.count = env_steps

    def __getitem__(self, policy_id: str) -> SampleBatch:
        return self.policy_batches[policy_id]

    def __repr__(self) -> str:
        return f"MultiAgentBatch({self.count} environment steps: {self.policy_batches})"

    @property
    def nbytes(self) -> int:
        """Size of all arrays, bytes."""
        return sum(batch.nbytes for batch in self.policy_batches.values())

    @staticmethod
    def concat(batches: Sequence[MultiAgentBatch]) -> MultiAgentBatch:
        """Put batches one behind the other, policy by policy."""
        ids = sorted({policy_id for batch in batches for policy_id in batch.policy_batches})
        return MultiAgentBatch(
            {
                policy_id: SampleBatch.concat(
                    [b[policy_id] for b in batches if policy_id in b.policy_batches]
                )
                for policy_id in ids
            },
            sum(batch.count for batch in batches),
        )
