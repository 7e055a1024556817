"""The trainer's own part of the contract for programs; hack/elastic-torch and make e2e run it with PyTorch."""

from pathlib import Path
from typing import BinaryIO

import pytest

from device_plugin.core.jobs.progress import BYTES, Progress, checkpoints_of, progress_of
from hack.elastic import train


def test_a_checkpoint_is_replaced_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint"
    train.replace(path, lambda file: file.write(b"one"))
    assert path.read_bytes() == b"one"

    def half(file: BinaryIO) -> None:
        file.write(b"tw")
        raise OSError("no space")

    with pytest.raises(OSError, match="no space"):
        train.replace(path, half)
    assert path.read_bytes() == b"one"
    train.replace(path, lambda file: file.write(b"two"))
    assert path.read_bytes() == b"two"
    assert [file.name for file in tmp_path.iterdir()] == ["checkpoint"]


def test_what_it_says_is_what_the_agent_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "progress"
    path.write_bytes(bytes(BYTES))
    monkeypatch.setenv("VGPU_PROGRESS", str(path))
    for done in (999, 1000, 7):
        train.say_progress(done, 1000)
        content = path.read_bytes()
        assert (progress_of(content), checkpoints_of(content)) == (Progress(done, 1000), 0)
        assert len(content) == BYTES, "the file never grows"


def test_it_says_nothing_where_nobody_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("VGPU_PROGRESS", raising=False)
    train.say_progress(1, 2)
