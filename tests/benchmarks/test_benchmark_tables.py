"""The benchmarks' arithmetic and words, with made-up measurements."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import ppo_cartpole, programs, sampling
from benchmarks.measure import measure_rate
from benchmarks.programs import Program, available, common_arguments, median_ratio, seeds_of


def rates(*values: float) -> list[dict[str, float]]:
    return [{"steps_per_second": value} for value in values]


def runs(*seconds: float | None) -> list[dict[str, object]]:
    return [
        {"seconds": each or 99.0, "solved": each is not None, "environment_steps": 50_000}
        for each in seconds
    ]


def test_ratios_compare_runs_made_side_by_side() -> None:
    # The machine was half as fast in the last repetition, for both.
    assert median_ratio([400, 440, 200], [100, 110, 50]) == 4


def test_sampling_rows_say_what_was_wanted_and_whether_it_is_so() -> None:
    found = {
        "stepping": rates(50, 50),
        "rllib": rates(10, 10),
        "dtrainer": rates(45, 50),
        "dtrainer_wide": rates(140, 140),
    }
    stepping, rllib, ordinary, vectorised = sampling.table_rows(found)
    assert stepping[-1] == rllib[-1] == ""
    assert ordinary[1:3] == ["48", "45 to 50"]
    assert ordinary[4:] == ["4.75 ×", "0.95 ×", "≥ 4 × RLlib: met"]
    assert vectorised[-1] == "≥ 15 × RLlib: missed"


def test_without_peers_there_is_nothing_to_compare_with() -> None:
    [row] = sampling.table_rows({"dtrainer": rates(45)})
    assert row[3:] == ["", "", "", ""]
    [row] = ppo_cartpole.learning_rows({"dtrainer": runs(3.0)})
    assert row[-2:] == ["", ""]


def test_learning_rows() -> None:
    mine, sb3 = ppo_cartpole.learning_rows({"dtrainer": runs(4, 5, 6), "sb3": runs(10, 10, 10)})
    assert mine[1:] == ["3 of 3", "5.0", "4.0 to 6.0", "50,000", "0.50 ×", "≤ 0.5 × SB3: met"]
    assert sb3[5:] == ["1.00 ×", ""]


def test_a_run_that_gave_up_is_not_a_fast_one() -> None:
    mine, _ = ppo_cartpole.learning_rows({"dtrainer": runs(4, None), "sb3": runs(10, 10)})
    assert mine[1] == "1 of 2"
    assert mine[3] == "4.0 to unsolved"
    assert mine[-1] == "≤ 0.5 × SB3: missed"


def test_first_result_row() -> None:
    [row] = ppo_cartpole.first_result_row({"first_result": [{"seconds": 2.0}, {"seconds": 6.0}]})
    assert row[-1] == "< 5 s: met"


def test_seeds() -> None:
    parser = common_arguments("")
    assert seeds_of(parser.parse_args([])) == [0, 1, 2]
    assert seeds_of(parser.parse_args(["--seeds", "7", "9"])) == [7, 9]
    with pytest.raises(SystemExit, match="1 or more"):
        seeds_of(parser.parse_args(["--repetitions", "0"]))


def test_missing_peers_are_left_out_and_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(programs, "PEERS_PYTHON", tmp_path / "python")
    assert {program.key for program in available(sampling.PROGRAMS)} == {
        "stepping",
        "stepping_self",
        "dtrainer",
        "dtrainer_self",
        "dtrainer_wide",
    }
    assert "make bench-peers" in capsys.readouterr().err


def test_a_program_that_fails_ends_the_benchmark_with_its_own_words() -> None:
    with pytest.raises(SystemExit, match=r"bad one failed with exit code 2(.|\n)*unrecognized"):
        Program("bad", "bad one", "benchmarks.ours.env_stepping", ("--nonsense",)).run([], 60)


def test_the_bound_is_measured() -> None:
    program = Program("stepping", "stepping", "benchmarks.ours.env_stepping")
    found = program.run(["--seconds", "0.1", "--warm-up", "0"], 60)
    assert found["environment_steps"] % (64 * 32) == 0
    assert found["steps_per_second"] == pytest.approx(found["environment_steps"] / found["seconds"])


def test_the_warm_up_is_not_counted() -> None:
    calls = []

    def sample() -> int:
        calls.append(None)
        return 10

    found = measure_rate(sample, seconds=0.01, warm_up=0.01)
    assert 0 < found["environment_steps"] < 10 * len(calls)
