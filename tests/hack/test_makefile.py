"""The targets of the Makefile, with programs in the virtual environment that only say how they were called."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from vgpu_runtime.paths import SOURCES

# In place of pytest: it says how it was called, and ends as the test wants; badly where it may keep nothing compiled.
PYTHON = """\
#!/bin/sh
echo "$*"
exit "${PYTHONDONTWRITEBYTECODE:-$STATUS}"
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with the Makefile, and what its stamps depend on."""
    for name in (
        "Makefile", "pyproject.toml", "hack/pyproject.toml", "requirements/demo.lock", "requirements/dev.lock",
    ):  # fmt: skip
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(SOURCES.parent / name, tmp_path / name)
    return tmp_path


def make(folder: Path, *words: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    """One `make` in the folder."""
    return subprocess.run(
        ["make", "--no-print-directory", *words],
        cwd=folder, env={"PATH": "/usr/bin:/bin", **environment}, capture_output=True, text=True, check=False,
    )  # fmt: skip


@pytest.mark.parametrize("status", [0, 1])
@pytest.mark.parametrize(
    ("words", "called"),
    [
        (["test"], "-m pytest --numprocesses 3 --dist worksteal"),
        (["test", "ARGS=tests/core -q"], "-m pytest tests/core -q"),
        (["coverage"], "-m pytest --numprocesses 3 --dist worksteal -m not no_cover --cov"),
    ],
)
def test_the_tests_run_as_asked_for_and_their_end_is_makes(
    words: list[str], called: str, status: int, folder: Path
) -> None:
    python = folder / ".venv/bin/python"
    python.parent.mkdir(parents=True)
    python.write_text(PYTHON)
    python.chmod(0o755)
    done = make(folder, "--old-file=setup", *words, STATUS=str(status), PYTHONDONTWRITEBYTECODE="1")
    assert done.stdout.splitlines() == [called]
    assert (done.returncode != 0) == bool(status), done.stderr


@pytest.mark.parametrize(
    ("target", "there", "installed"),
    [
        ("demo", (), ["demo"]),
        ("setup", (), ["demo", "dev"]),
        ("setup", ("made", "demo"), ["dev"]),
        ("demo", ("made", "demo", "dev"), []),
    ],
)
def test_a_target_installs_what_it_needs_and_is_not_there(
    target: str, there: tuple[str, ...], installed: list[str], folder: Path
) -> None:
    (folder / ".venv").mkdir()
    for stamp in there:
        (folder / ".venv" / f".{stamp}").touch()
    steps = make(folder, "--dry-run", target).stdout
    assert re.findall(r"--require-hashes -r requirements/(\w+)\.lock", steps) == installed
    assert steps.count("echo 'set-up: the Python packages of ") == len(installed)


def test_help_names_every_target(folder: Path) -> None:
    phony = re.search(r"^\.PHONY: help (.*)$", (folder / "Makefile").read_text(), re.MULTILINE)
    listed = {line.split()[1] for line in make(folder, "help").stdout.splitlines()}
    assert phony
    assert listed - {"help"} == set(phony[1].split()) - {"native"}
    assert make(folder).stdout == make(folder, "help").stdout
