"""Containers as processes: their root, what CDI puts there, and their end."""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from hack.embedded.runtime.cdi import CdiCache
from hack.embedded.runtime.containers import ContainerAttempt, ContainerSpec, CreateError, StartError
from hack.embedded.runtime.process_groups import ProcessGroups
from hack.embedded.runtime.processes import LAUNCHER, ProcessRuntime
from tests.requirement import require


def container(*command: str, **more: Any) -> ContainerSpec:
    pod = {"metadata": {"namespace": "default", "name": "one", "uid": "uid-1"}}
    return ContainerSpec(pod, "main", command, **more)


class Machine:
    """A runtime with a CDI folder and one device called `vgpu.io/slice=one`."""

    def __init__(self, folder: Path, extra: Sequence[tuple[Path, str]] = ()) -> None:
        self.folder = folder
        (folder / "cdi").mkdir()
        self.cdi = CdiCache(folder / "cdi", 0, seed=1)
        self.groups = folder / "groups"
        self.process_groups = ProcessGroups(self.groups)
        self.runtime = ProcessRuntime(
            self.cdi, self.process_groups, folder=folder / "mnt", logs=folder / "logs", extra=extra
        )

    def define(self, **edits: object) -> None:
        spec = {
            "cdiVersion": "0.6.0",
            "kind": "vgpu.io/slice",
            "devices": [{"name": "one", "containerEdits": edits}],
        }
        self.cdi.close()
        (self.folder / "cdi" / "one.json").write_text(json.dumps(spec))
        self.cdi = CdiCache(self.folder / "cdi", 0, seed=1)
        self.runtime._cdi = self.cdi

    def run(self, script: str, **more: Any) -> str:
        """What a container with the device prints."""
        made = self.runtime.create(container("sh", "-c", script, devices=("vgpu.io/slice=one",), **more))
        self.wait(made)
        return (self.folder / "logs" / "default_one_main.log").read_text()

    def wait(self, made: ContainerAttempt) -> int:
        end = time.monotonic() + 60
        while made.exit_code is None:
            assert time.monotonic() < end
            time.sleep(0.002)
        return made.exit_code


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    extra = tmp_path / "programs"
    extra.mkdir()
    (extra / "hello").write_text("#!/bin/sh\necho hello from the image\n")
    (extra / "hello").chmod(0o755)
    made = Machine(tmp_path, ((extra, "/opt/vgpu/bin"),))
    yield made
    made.runtime.close()
    assert not list(made.groups.rglob("*"))


def mount(source: Path, target: str, *options: str) -> dict[str, Any]:
    return {"hostPath": str(source), "containerPath": target, "options": ["bind", *options]}


def test_files_are_mounted_where_nothing_was_before(machine: Machine) -> None:
    source = machine.folder / "file"
    source.write_text("content\n")
    targets = ["/etc/vgpu/vgpu.conf", "/usr/local/vgpu/libvgpu.so", "/var/run/vgpu/usage", "/opt/a/b"]
    machine.define(mounts=[mount(source, target, "ro", "nosuid", "nodev") for target in targets])
    output = machine.run(f"cat {' '.join(targets)}; for f in {' '.join(targets)}; do echo x > $f; done")
    assert output.startswith("content\n" * 4)
    assert output.count("Read-only file system") == 4
    assert source.read_text() == "content\n"


def test_a_writable_mount_writes_through(machine: Machine) -> None:
    source = machine.folder / "usage"
    source.write_text("old")
    machine.define(mounts=[mount(source, "/var/run/vgpu/usage", "rw", "nosuid", "nodev", "noexec")])
    machine.run("echo new > /run/vgpu/usage")
    assert source.read_text() == "new\n"


def test_ld_so_preload_is_the_containers_own(machine: Machine) -> None:
    source = machine.folder / "preload"
    source.write_text("/no/such/library.so\n")
    machine.define(mounts=[mount(source, "/etc/ld.so.preload", "ro")])
    assert "/no/such/library.so" in machine.run("true; true")


def test_a_device_node_is_bound_from_its_host_path(machine: Machine) -> None:
    plain = machine.folder / "kfd"
    plain.touch()
    nodes = [
        {"path": "/dev/kfd", "hostPath": str(plain)},
        {"path": "/dev/dri/renderD128", "hostPath": "/dev/null"},
    ]
    machine.define(deviceNodes=nodes)
    output = machine.run(
        "ls /dev /dev/dri; echo x > /dev/dri/renderD128; test -c /dev/dri/renderD128 && echo char"
    )
    assert "kfd" in output
    assert "renderD128" in output
    assert "char" in output
    assert "vda" not in output
    assert "sda" not in output


def test_the_root_is_a_containers(machine: Machine) -> None:
    machine.define(env=["A=1"])
    output = machine.run(
        "hello; ls /; pwd; id -u; hostname; echo $$; ls /etc; touch /tmp/x /x && echo writable",
        env={"B": "2"},
    )
    assert output.startswith("hello from the image\n")
    assert "\nhome\n" not in output
    assert "\n/\n0\none\n1\n" in output
    assert "shadow" not in output
    assert output.endswith("writable\n")


def test_cdi_overrides_a_pods_own_environment_which_overrides_a_plugins(machine: Machine) -> None:
    machine.define(env=["A=device"])
    output = machine.run(
        "echo $A $B $C",
        env={"A": "pod", "B": "pod"},
        plugin_env={"A": "plugin", "B": "plugin", "C": "plugin"},
    )
    assert output == "device pod plugin\n"


@pytest.mark.parametrize(
    ("edits", "message"),
    [
        ({"mounts": [mount(Path("/no/such/file"), "/x", "ro")]}, "failed to stat /no/such/file"),
        ({"mounts": [mount(Path("/etc/hosts"), "/x", "odd")]}, "mount option odd is not known"),
    ],
)
def test_what_cannot_be_mounted_fails_the_start(
    machine: Machine, edits: dict[str, Any], message: str
) -> None:
    machine.define(**edits)
    with pytest.raises(StartError, match=message) as caught:
        machine.run("true")
    assert caught.value.reason == "RunContainerError"
    assert machine.runtime.containers() == [caught.value.container]


def test_a_device_node_that_is_not_there_fails_the_creation(machine: Machine) -> None:
    machine.define(deviceNodes=[{"path": "/dev/kfd", "hostPath": "/no/kfd"}])
    with pytest.raises(CreateError, match='failed to stat CDI host device "/no/kfd"') as caught:
        machine.run("true")
    assert caught.value.reason == "CreateContainerError"
    assert not machine.runtime.containers()


def test_an_unresolvable_device_fails_the_creation(machine: Machine) -> None:
    with pytest.raises(CreateError, match=r"unresolvable CDI devices vgpu\.io/slice=two"):
        machine.runtime.create(container("true", devices=("vgpu.io/slice=two",)))


def test_a_program_that_cannot_be_executed_fails_the_start(machine: Machine) -> None:
    with pytest.raises(StartError, match='exec: "/etc": Permission denied') as caught:
        machine.runtime.create(container("/etc"))
    assert caught.value.container.exit_code == 128


def test_exit_codes_are_those_of_the_program(machine: Machine) -> None:
    machine.define(env=["A=1"])
    for script, code in (("exit 0", 0), ("exit 7", 7), ("kill -9 $$ & wait; sh -c 'kill -9 $$'", 137)):
        made = machine.runtime.create(container("sh", "-c", script))
        assert machine.wait(made) == code


def test_kill_ends_processes_that_left_the_group(machine: Machine) -> None:
    ready = machine.folder / "ready"
    ready.touch()
    machine.define(mounts=[mount(ready, "/ready", "rw")])
    script = f"setsid sh -c 'echo x > /ready; sleep infinity; : {ready}' & sleep infinity"
    made = machine.runtime.create(container("sh", "-c", script, devices=("vgpu.io/slice=one",)))
    while not ready.stat().st_size:
        time.sleep(0.005)
    assert _processes_naming(ready)
    made.terminate()
    assert made.exit_code is None, "the first process of a pid namespace ignores SIGTERM without a handler"
    made.kill()
    assert machine.wait(made) == 137
    assert not _processes_naming(ready)


def _processes_naming(word: object) -> list[Path]:
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if str(word).encode() in path.read_bytes():
                found.append(path)
        except (FileNotFoundError, ProcessLookupError):
            continue
    return found


ORPHAN = """
import sys, time
from pathlib import Path
from tests.hack.embedded.runtime.test_processes import Machine, container
machine = Machine(Path(sys.argv[1]))
machine.runtime.create(container("sleep", "infinity"))
print(next(machine.groups.glob("*/*")).read_text(), flush=True)
time.sleep(60)
"""


def test_containers_die_with_the_process_that_started_them() -> None:
    with tempfile.TemporaryDirectory() as folder:
        starter = subprocess.Popen([sys.executable, "-c", ORPHAN, folder], stdout=subprocess.PIPE, text=True)
        assert starter.stdout is not None
        with starter:
            pgid = int(starter.stdout.readline())
            os.killpg(pgid, 0)
            starter.send_signal(signal.SIGKILL)
        end = time.monotonic() + 60
        while _alive(pgid):
            assert time.monotonic() < end, "the container outlived its starter"
            time.sleep(0.005)


def _alive(pgid: int) -> bool:
    try:
        os.killpg(pgid, 0)
    except ProcessLookupError:
        return False
    return True


def test_a_kernel_that_refuses_user_namespaces_is_told_how_to_allow_them(tmp_path: Path) -> None:
    require(shutil.which("unshare"), "needs unshare: apt-get install util-linux")
    script = f"echo 0 > /proc/sys/user/max_user_namespaces && {LAUNCHER} 1 root {tmp_path} -- true"
    result = subprocess.run(
        ["unshare", "-Ur", "sh", "-c", script], capture_output=True, text=True, check=False
    )
    assert result.returncode == 125
    assert "user.max_user_namespaces" in result.stdout
    assert "kernel.apparmor_restrict_unprivileged_userns=0" in result.stdout


def test_one_more_program_runs_in_the_container(machine: Machine) -> None:
    made = machine.runtime.create(container("sleep", "1000", env={"COLOUR": "blue"}))
    script = 'hello; echo "$COLOUR $PPID"; cat /proc/1/cmdline | tr "\\0" " "; cat; exit 3'
    done = subprocess.run(made.inside(["sh", "-c", script]), input=b"in", capture_output=True, check=False)
    assert done.stdout == b"hello from the image\nblue 0\nsleep 1000 in", done.stderr
    assert done.returncode == 3
    missing = subprocess.run(made.inside(["nosuch"]), capture_output=True, check=False)
    assert (missing.returncode, missing.stderr) == (126, b'exec: "nosuch": No such file or directory\n')
    made.kill()
    assert machine.wait(made) == 137


def test_a_program_that_was_started_later_ends_with_the_container(machine: Machine) -> None:
    made = machine.runtime.create(container("sleep", "1000"))
    with subprocess.Popen(
        made.inside(["sh", "-c", "echo up; sleep 1000"]), stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"up\n"
        made.kill()
        assert process.wait(60) == 137
