"""The targets of the Makefile, with programs in the virtual environment that only say how they were called."""

import shutil
import subprocess
from pathlib import Path

import pytest

from vgpu_runtime.paths import SOURCES

FIRST, SECOND = "not no_cover", "no_cover"
# In place of pytest: it says which tests were chosen, ends as the test wants, and writes its closing line.
PYTHON = """\
#!/bin/sh
while [ "$1" != -m ] || [ "$2" = pytest ]; do shift; done
echo "ran: $2"
echo "closing: $2" >>"$VGPU_CLOSING_LINES"
case "$FAILS" in *"<$2>"*) exit 1;; esac
"""


def run(folder: Path, *words: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    """`make` with a copy of the Makefile, of which everything is set up."""
    shutil.copy(SOURCES.parent / "Makefile", folder)
    program = folder / ".venv/bin/python"
    program.parent.mkdir(parents=True)
    program.write_text(PYTHON)
    program.chmod(0o755)
    (folder / "build").mkdir()
    return subprocess.run(
        ["make", "--no-print-directory", "--old-file=setup", *words],
        cwd=folder, env={"PATH": "/usr/bin:/bin", **environment}, capture_output=True, text=True, check=False,
    )  # fmt: skip


@pytest.mark.parametrize(
    "fails", [(), (FIRST,), (SECOND,), (FIRST, SECOND)], ids=["none", "first", "second", "both"]
)
def test_both_halves_of_the_tests_run_whatever_the_first_one_says(
    fails: tuple[str, ...], tmp_path: Path
) -> None:
    done = run(tmp_path, "test", FAILS="".join(f"<{half}>" for half in fails))
    assert done.stdout.splitlines() == [
        f"ran: {FIRST}", f"ran: {SECOND}", f"closing: {FIRST}", f"closing: {SECOND}",
    ]  # fmt: skip
    assert (done.returncode != 0) == bool(fails), done.stderr
