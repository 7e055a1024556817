"""Minimal containers: no process, but everything that a process would have found."""

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from hack.embedded.runtime.cdi import CdiCache
from hack.embedded.runtime.containers import ContainerSpec, CreateError
from hack.embedded.runtime.minimal import MinimalRuntime
from hack.embedded.runtime.process_groups import ProcessGroups

POD = {"metadata": {"namespace": "default", "name": "one", "uid": "uid-1"}}
DEVICE = "vgpu.io/slice=one"


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """A file that the CDI device mounts."""
    config = tmp_path / "config"
    config.write_text("four units\n")
    edits = {"env": ["A=1"], "mounts": [{"hostPath": str(config), "containerPath": "/etc/vgpu/vgpu.conf"}]}
    spec = {
        "cdiVersion": "0.6.0",
        "kind": "vgpu.io/slice",
        "devices": [{"name": "one", "containerEdits": edits}],
    }
    (tmp_path / "cdi").mkdir()
    (tmp_path / "cdi" / "one.json").write_text(json.dumps(spec))
    return config


class Recorder:
    """An on_start that keeps what it was told, and an on_exit that keeps who ended."""

    def __init__(self) -> None:
        self.starts: list[tuple[object, ...]] = []
        self.ends: list[str] = []
        self.code: int | None = None

    def start(
        self, pod: Mapping[str, Any], name: str, files: Mapping[str, bytes], env: Mapping[str, str]
    ) -> int | None:
        self.starts.append((pod, name, dict(files), dict(env)))
        return self.code


@pytest.fixture
def recorder() -> Recorder:
    return Recorder()


@pytest.fixture
def runtime(tmp_path: Path, config: Path, recorder: Recorder) -> Iterator[MinimalRuntime]:  # noqa: ARG001 - written before
    cache = CdiCache(tmp_path / "cdi", 0, seed=1)
    groups = ProcessGroups(tmp_path / "groups")
    made = MinimalRuntime(cache, groups, recorder.start)
    made.listen(lambda container: recorder.ends.append(container.spec.name))
    yield made
    made.close()


def spec(name: str = "main") -> ContainerSpec:
    return ContainerSpec(POD, name, ("ignored",), {"B": "2"}, {}, (DEVICE,))


def test_the_callback_sees_the_files_and_the_environment(runtime: MinimalRuntime, recorder: Recorder) -> None:
    runtime.create(spec())
    assert recorder.starts == [(POD, "main", {"/etc/vgpu/vgpu.conf": b"four units\n"}, {"A": "1", "B": "2"})]


def test_it_is_live_to_the_agent_until_it_ends(
    runtime: MinimalRuntime, recorder: Recorder, tmp_path: Path
) -> None:
    container = runtime.create(spec())
    (group,) = tmp_path.glob("groups/poduid-1/*")
    assert group.name == container.id
    os.killpg(int(group.read_text()), 0)
    container.terminate()
    assert (container.exit_code, recorder.ends) == (143, ["main"])
    assert not (tmp_path / "groups" / "poduid-1").exists()


def test_killed_it_ends_with_137_once(runtime: MinimalRuntime, recorder: Recorder) -> None:
    container = runtime.create(spec())
    container.kill()
    container.terminate()
    assert (container.exit_code, recorder.ends) == (137, ["main"])


def test_the_callback_may_end_it(runtime: MinimalRuntime, recorder: Recorder) -> None:
    recorder.code = 3
    assert runtime.create(spec()).exit_code == 3


def test_a_missing_mount_source_fails_the_creation(runtime: MinimalRuntime, config: Path) -> None:
    config.unlink()
    with pytest.raises(CreateError, match="config"):
        runtime.create(spec())


def test_a_pod_is_forgotten_only_when_all_of_it_has_ended(runtime: MinimalRuntime) -> None:
    live, ended = runtime.create(spec("live")), runtime.create(spec("ended"))
    ended.kill()
    runtime.forget("uid-1")
    assert runtime.containers() == [live]
