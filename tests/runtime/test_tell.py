"""`vgpu-progress` and `vgpu-checkpoint`: what scripts say, as the agent reads it."""

import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from device_plugin.core.jobs.progress import BYTES, LINE, MOST, Progress, checkpoints_of, progress_of


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "progress"
    path.write_bytes((b" " * (LINE - 1) + b"\n") * 2)
    return path


@pytest.fixture
def tools(tmp_path: Path, native: Path) -> Path:
    for name in ("vgpu-progress", "vgpu-checkpoint"):
        (tmp_path / name).symlink_to(native / "vgpu-tell")
    return tmp_path


def tell(
    tools: Path, *words: str, environment: Mapping[str, str] | None = None
) -> "subprocess.CompletedProcess[str]":
    given = {"VGPU_PROGRESS": str(tools / "progress")} if environment is None else environment
    return subprocess.run(
        [str(tools / words[0]), *words[1:]],
        env=given,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def test_each_tool_writes_its_own_line(tools: Path, file: Path) -> None:
    for done in (tell(tools, "vgpu-progress", "120000", "1281167"), tell(tools, "vgpu-checkpoint", "done")):
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert file.read_bytes() == f"{'120000 1281167':<63}\n{'1':<63}\n".encode()
    tell(tools, "vgpu-progress", "7", "8")
    for _ in range(9):
        tell(tools, "vgpu-checkpoint", "done")
    content = file.read_bytes()
    assert (progress_of(content), checkpoints_of(content), len(content)) == (Progress(7, 8), 10, BYTES)


@settings(max_examples=25)
@given(done=st.integers(0, MOST), total=st.integers(1, MOST), before=st.binary(max_size=BYTES))
def test_what_is_written_is_what_is_read_whatever_was_there(
    tools: Path, file: Path, done: int, total: int, before: bytes
) -> None:
    file.write_bytes(before)
    assert tell(tools, "vgpu-progress", str(done), str(total)).returncode == 0
    saved = checkpoints_of(file.read_bytes())
    assert tell(tools, "vgpu-checkpoint", "done").returncode == 0
    content = file.read_bytes()
    assert progress_of(content) == Progress(min(done, total), total)
    assert saved < checkpoints_of(content) or before[LINE:]


@pytest.mark.parametrize(
    "words",
    [
        ("vgpu-progress",),
        ("vgpu-progress", "1"),
        ("vgpu-progress", "1", "2", "3"),
        ("vgpu-progress", "-1", "2"),
        ("vgpu-progress", "1.5", "2"),
        ("vgpu-progress", "", "2"),
        ("vgpu-progress", "1" * 17, "2"),
        ("vgpu-checkpoint",),
        ("vgpu-checkpoint", "don"),
        ("vgpu-checkpoint", "done", "3"),
    ],
)
def test_wrong_words_are_answered_with_the_right_ones(
    tools: Path, file: Path, words: tuple[str, ...]
) -> None:
    before = file.read_bytes()
    done = tell(tools, *words)
    assert done.returncode == 2
    assert done.stderr.startswith(f"usage: {words[0]} ")
    assert file.read_bytes() == before


@pytest.mark.parametrize("environment", [{}, {"VGPU_PROGRESS": ""}, {"VGPU_PROGRESS": "/nowhere/progress"}])
def test_a_job_does_not_fail_where_nobody_is_told(tools: Path, environment: Mapping[str, str]) -> None:
    for words in (("vgpu-progress", "1", "2"), ("vgpu-checkpoint", "done")):
        done = tell(tools, *words, environment=environment)
        assert done.returncode == 0
        assert done.stderr.startswith("vgpu: nobody is told: there is no file at $VGPU_PROGRESS")


def test_it_needs_no_libc_and_no_loader(native: Path) -> None:
    program = (native / "vgpu-tell").read_bytes()
    assert b"ld-linux" not in program
    assert b"libc.so" not in program
    assert len(program) < 16384
