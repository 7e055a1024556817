"""Runs containers as local processes in separate namespaces, without root."""

import os
import signal
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from hack.embedded.runtime.cdi import CdiCache, Edits
from hack.embedded.runtime.containers import ContainerAttempt, ContainerSpec, CreateError, Runtime
from hack.embedded.runtime.image import image_operations
from hack.embedded.runtime.process_groups import ProcessGroups
from vgpu_runtime.paths import BUILD

LAUNCHER = BUILD / "vgpu-container"


class ProcessContainer(ContainerAttempt):
    """A container that runs as a launcher process; its process group is used in place of a cgroup."""

    def __init__(
        self,
        spec: ContainerSpec,
        process: "subprocess.Popen[bytes]",
        environment: Mapping[str, str],
        log: Path,
        log_start: int,
        ended: Callable[[ContainerAttempt, int], None],
    ) -> None:
        super().__init__(spec, log=log, log_start=log_start)
        self.process = process
        self._environment = environment
        self.waiter = threading.Thread(target=lambda: ended(self, _wait(process)), daemon=True)

    def terminate(self) -> None:
        """Send SIGTERM to the first process; as in any container, it has no effect without a handler."""
        self._signal(signal.SIGTERM)

    def kill(self) -> None:
        """Send SIGKILL to all processes; the launcher ends when the last process is gone."""
        self._signal(signal.SIGUSR1)

    def inside(self, command: Sequence[str]) -> Sequence[str]:
        """The command line that runs a command in the container, with the first process' environment variables."""
        variables = [word for name, value in self._environment.items() for word in ("env", f"{name}={value}")]
        return [str(LAUNCHER), "enter", str(self.process.pid), *variables, "--", *command]

    def join(self) -> None:
        """Wait until the launcher has ended and `ended` was called."""
        self.waiter.join()

    def _signal(self, number: signal.Signals) -> None:
        if self.exit_code is None:
            self.process.send_signal(number)


class ProcessRuntime(Runtime):
    """Starts containers with the launcher; they end with this process.

    `extra` are (host path, container path) pairs of the image. Files `<ns>_<pod>_<container>.log` are written to
    `logs`. `folder` is an empty folder on which the containers' roots are mounted.
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
        super().__init__(cdi, groups)
        self._root = folder
        self._logs = logs
        self._extra = extra
        for path in (folder, logs):
            path.mkdir(parents=True, exist_ok=True)

    def check(self) -> None:
        """Start an idle container as a test. Raises CreateError with the missing requirement and how to get it."""
        pod = {"metadata": {"namespace": "", "name": "check", "uid": "check"}}
        _wait(self._process(ContainerSpec(pod, "check", ("true",)), Edits()))

    def _launch(self, spec: ContainerSpec, edits: Edits) -> ContainerAttempt:
        log = self._log(spec)
        start = log.stat().st_size if log.exists() else 0
        process = self._process(spec, edits)
        container = ProcessContainer(spec, process, spec.environment(edits), log, start, self._ended)
        self._started(container, container.process.pid)
        container.waiter.start()
        return container

    def _process(self, spec: ContainerSpec, edits: Edits) -> "subprocess.Popen[bytes]":
        """Start the launcher, wait until it runs the program, and return its process. Raises CreateError."""
        if not LAUNCHER.exists():
            raise CreateError(f"{LAUNCHER} is not built: run `make native`")
        reader, writer = os.pipe()
        try:
            with self._log(spec).open("ab") as output:
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
            _wait(process)
            raise CreateError(problem.partition(": ")[2])
        return process

    def _log(self, spec: ContainerSpec) -> Path:
        """The file with the output of all attempts of a container."""
        return self._logs / f"{spec.label}.log"

    def _operations(self, spec: ContainerSpec, edits: Edits) -> list[str]:
        operations = ["root", str(self._root), *image_operations(self._extra)]
        operations += ["host", str(spec.pod["metadata"]["name"])[:63]]
        for source, target in spec.mounts:
            operations += ["bind", source, target, "ro,nosuid"]
        for source, target in edits.devices:
            operations += ["bind", source, target, "rw"]
        for mount in edits.mounts:
            operations += ["bind", mount.source, mount.target, ",".join(mount.options) or "rw"]
        for name, value in spec.environment(edits).items():
            operations += ["env", f"{name}={value}"]
        return operations


def _wait(process: "subprocess.Popen[bytes]") -> int:
    """Wait for the launcher's end, close its stdin, and return its exit code.

    The launcher ends when its stdin is closed, so it also ends with this process.
    """
    code = process.wait()
    if process.stdin is not None:
        process.stdin.close()
    return code
