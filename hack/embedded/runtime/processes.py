"""Containers as local processes in namespaces of their own, without root."""

import logging
import os
import secrets
import signal
import subprocess
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

from hack.embedded.runtime.cdi import CdiCache, CdiError, Edits
from hack.embedded.runtime.containers import (
    ContainerSpec,
    CreateError,
    RunningContainer,
    StartError,
    Stillborn,
)
from hack.embedded.runtime.image import image_operations
from hack.embedded.runtime.process_groups import ProcessGroups
from hack.embedded.runtime.records import ContainerRecords
from vgpu_runtime.paths import BUILD

log = logging.getLogger(__name__)

LAUNCHER = BUILD / "vgpu-container"


class ProcessContainer:
    """A container that runs as a launcher process. Its process group stands for the container's cgroup."""

    problem = ""

    def __init__(self, spec: ContainerSpec, process: "subprocess.Popen[bytes]") -> None:
        self.spec = spec
        self.id = secrets.token_hex(16)
        self.exit_code: int | None = None
        self.process = process

    def terminate(self) -> None:
        """SIGTERM to the first process. As in any container, it has no effect there without a handler."""
        self._signal(signal.SIGTERM)

    def kill(self) -> None:
        """SIGKILL to all of it: the launcher ends when the last process is gone."""
        self._signal(signal.SIGUSR1)

    def _signal(self, number: signal.Signals) -> None:
        if self.exit_code is None:
            self.process.send_signal(number)


class ProcessRuntime:
    """Starts containers with the launcher.

    `extra` are (host path, container path) pairs of the image, `logs` gets `<ns>_<pod>_<container>.log`,
    `folder` one empty folder that roots are mounted on. Containers die with this process.
    """

    def __init__(
        self,
        cdi: CdiCache,
        groups: ProcessGroups,
        *,
        folder: Path,
        logs: Path,
        extra: Sequence[tuple[Path, str]] = (),
    ) -> None:
        self._cdi = cdi
        self._groups = groups
        self._root = folder
        self._logs = logs
        self._extra = extra
        self._records = ContainerRecords()
        self._on_exit: Callable[[RunningContainer], None] = lambda _: None
        self.open_sandbox = groups.open_sandbox
        self.close_sandbox = groups.close_sandbox
        self.sandboxes = groups.sandboxes
        self._waiters: set[threading.Thread] = set()
        self._lock = threading.Lock()
        for path in (folder, logs):
            path.mkdir(parents=True, exist_ok=True)

    def check(self) -> None:
        """Start a container that does nothing. Raises CreateError that says what is missing and how to get it."""
        pod = {"metadata": {"namespace": "", "name": "check", "uid": "check"}}
        process = self._launch(ContainerSpec(pod, "check", ("true",)), Edits())
        process.wait()
        _close_lifeline(process)

    def listen(self, on_exit: Callable[[RunningContainer], None]) -> None:
        """Call `on_exit` for every container that ends from now on."""
        self._on_exit = on_exit

    def create(self, spec: ContainerSpec) -> RunningContainer:
        """Resolve the CDI devices and start the program. Raises CreateError and StartError."""
        try:
            edits = self._cdi.resolve(spec.devices)
        except CdiError as error:
            raise CreateError(str(error)) from None
        try:
            process = self._launch(spec, edits)
        except CreateError as error:
            stillborn = Stillborn(spec, str(error))
            self._records.add(stillborn)
            raise StartError(stillborn) from None
        container = ProcessContainer(spec, process)
        self._groups.add(spec.pod_uid, container.id, process.pid)
        self._records.add(container)
        waiter = threading.Thread(target=self._wait, args=(container,), daemon=True)
        with self._lock:
            self._waiters.add(waiter)
        waiter.start()
        return container

    def containers(self) -> list[RunningContainer]:
        """The newest attempt of every container whose pod was not forgotten."""
        return self._records.all()

    def forget(self, pod_uid: str) -> None:
        """Drop the records of a pod whose containers have all ended."""
        self._records.forget(pod_uid)

    def close(self) -> None:
        """Kill every container and wait for its end."""
        for container in self._records.all():
            container.kill()
        with self._lock:
            waiters = list(self._waiters)
        for waiter in waiters:
            waiter.join()

    def _launch(self, spec: ContainerSpec, edits: Edits) -> "subprocess.Popen[bytes]":
        if not LAUNCHER.exists():
            raise CreateError(f"{LAUNCHER} is not built: run `make native`")
        reader, writer = os.pipe()
        try:
            with (self._logs / f"{spec.label}.log").open("ab") as output:
                process = subprocess.Popen(
                    [str(LAUNCHER), str(writer), *self._operations(spec, edits), "--", *spec.command],
                    stdin=subprocess.PIPE, stdout=output, stderr=output, pass_fds=[writer], env={},
                    start_new_session=True,
                )  # fmt: skip
        except BaseException:
            os.close(reader)
            raise
        finally:
            os.close(writer)
        with os.fdopen(reader) as status:
            problem = status.read().strip()
        if problem:
            process.wait()
            _close_lifeline(process)
            raise CreateError(problem.partition(": ")[2])
        return process

    def _operations(self, spec: ContainerSpec, edits: Edits) -> list[str]:
        operations = ["root", str(self._root), *image_operations(self._extra)]
        operations += ["host", str(spec.pod["metadata"]["name"])[:63]]
        for source, target in edits.devices:
            operations += ["bind", source, target, "rw"]
        for mount in edits.mounts:
            operations += ["bind", mount.source, mount.target, ",".join(mount.options) or "rw"]
        for name, value in {**spec.plugin_env, **spec.env, **edits.env}.items():
            operations += ["env", f"{name}={value}"]
        return operations

    def _wait(self, container: ProcessContainer) -> None:
        code = container.process.wait()
        _close_lifeline(container.process)
        self._groups.remove(container.spec.pod_uid, container.id)
        container.exit_code = code
        self._on_exit(container)
        with self._lock:
            self._waiters.discard(threading.current_thread())


def _close_lifeline(process: "subprocess.Popen[bytes]") -> None:
    if process.stdin is not None:
        process.stdin.close()
