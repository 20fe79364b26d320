"""The programs that people copy run as they are."""

import re
import subprocess
import sys


def test_own_environment(pytestconfig, tmp_path):
    program = pytestconfig.rootpath / "examples/own_environment.py"
    done = subprocess.run(
        [sys.executable, str(program)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    returns = [float(number) for number in re.findall(r"steps: +(-?[\d.]+) degrees", done.stdout)]
    assert len(returns) == 15
    assert returns[-1] > -60 and returns[0] < -300
    assert list(tmp_path.glob("results/PPO_Thermostat_*/checkpoints/checkpoint_000015"))
