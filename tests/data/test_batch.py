import numpy as np
import pytest

from dtrainer.data import Cuts, MultiAgentBatch, SampleBatch


def trajectory(first, count, final):
    obs = np.arange(first, first + count, dtype=np.float32)[:, None]
    cuts = Cuts(np.array([count - 1]), np.array([[final]], np.float32))
    return SampleBatch({"obs": obs, "rewards": np.ones(count, np.float32)}, cuts)


def test_new_obs_is_the_next_row_and_the_true_successor_at_a_cut():
    batch = SampleBatch.concat([trajectory(0, 3, 99), trajectory(10, 2, 77)])
    assert batch["new_obs"][:, 0].tolist() == [1, 2, 99, 11, 77]
    assert "new_obs" in batch and batch.count == len(batch) == 5


def test_selected_rows_know_no_successors():
    rows = trajectory(0, 3, 99).rows(np.array([2, 0]))
    assert rows["obs"][:, 0].tolist() == [2, 0]
    with pytest.raises(KeyError, match="new_obs"):
        rows["new_obs"]


def test_columns_must_be_of_one_length():
    with pytest.raises(ValueError, match="differ in length"):
        SampleBatch({"obs": np.zeros(3), "rewards": np.zeros(2)})
    batch = trajectory(0, 3, 99)
    with pytest.raises(ValueError, match="2 rows"):
        batch["rewards"] = np.zeros(2)


def test_multi_agent_concat_counts_environment_steps_not_rows():
    one = MultiAgentBatch({"a": trajectory(0, 3, 9), "b": trajectory(5, 2, 9)}, 3)
    two = MultiAgentBatch({"a": trajectory(0, 1, 9)}, 1)
    both = MultiAgentBatch.concat([one, two])
    assert both.count == 4
    assert both["a"].count == 4 and both["b"].count == 2
