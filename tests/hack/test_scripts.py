"""Every script of hack/ runs from a bare shell, wherever it is called from: nobody activates a virtual environment."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from vgpu_runtime.paths import SOURCES

HACK = SOURCES.parent / "hack"
SCRIPTS = sorted(path.name for path in HACK.iterdir() if path.is_file() and os.access(path, os.X_OK))
# It runs before there is a virtual environment, under whichever Python make was told.
FIRST = "check-tools"
# They need no set-up.
READY = (FIRST, "gpu-check")


def bare(script: Path, home: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    """Run it as a new login would, in a folder that is not the project's."""
    environment = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": str(home)}
    return subprocess.run(
        [script, *words], cwd=home, env=environment, capture_output=True, text=True, check=False, timeout=240
    )


@pytest.mark.parametrize("script", SCRIPTS)
def test_it_runs_outside_of_the_virtual_environment(script: str, tmp_path: Path) -> None:
    done = bare(HACK / script, tmp_path, *([] if script == FIRST else ["--help"]))
    assert (done.returncode, done.stderr) == (0, "")
    assert script in ("python", FIRST) or f"usage: hack/{script} " in done.stdout


@pytest.mark.parametrize("script", [name for name in SCRIPTS if name not in READY])
def test_before_set_up_it_says_what_to_do(script: str, tmp_path: Path) -> None:
    for name in ("python", script):
        (tmp_path / "hack").mkdir(exist_ok=True)
        shutil.copy(HACK / name, tmp_path / "hack" / name)
    done = bare(tmp_path / "hack" / script, tmp_path)
    assert done.returncode == 2
    assert done.stderr == f"there is no {tmp_path}/.venv: run make setup there first\n"


def test_the_longer_trials_run_their_tests(tmp_path: Path) -> None:
    done = bare(HACK / "last-slices", tmp_path, "--rounds=1", "--seed=7")
    assert "1 passed" in done.stdout, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("in-flight --seeds=0", "write --seeds and --pods of at least 1"),
        ("kill-anywhere --seconds=-1", "write --seconds of more than 0"),
        ("kill-writes --rounds=0", "write --rounds of at least 1"),
        ("takeover --kills=0", "write --kills of at least 1"),
        ("fuzz --seconds=0", "write --seconds of at least 1"),
        ("forecasts --pods=0", "write --pods of at least 1"),
        ("last-slices --rounds=0", "write --rounds of at least 1"),
        ("packings --packings=0", "write --packings of at least 1"),
        ("rounds --states=0", "write --states of at least 1"),
        ("region-torture --kills=-5", "write --kills of at least 1"),
        ("region-torture --admissions=0", "write --admissions of at least 1"),
    ],
)
def test_a_trial_of_nothing_is_refused(words: str, says: str, tmp_path: Path) -> None:
    script, flag = words.split()
    done = bare(HACK / script, tmp_path, flag)
    assert (done.returncode, done.stderr.splitlines()[-1]) == (2, f"hack/{script}: error: {says}")
