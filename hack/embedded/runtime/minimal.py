"""Containers without a process, for tests with tens of thousands of them.

CDI names are resolved and mount sources read as for a real container; then a callback sees what a process would have
seen. To the node agent a minimal container is as alive as a real one: its file below the process-groups folder holds
the process group of one idle process that all of them share, and is removed when the container ends.
"""

import secrets
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from hack.embedded.runtime.cdi import CdiCache, CdiError
from hack.embedded.runtime.containers import (
    ContainerSpec,
    CreateError,
    RunningContainer,
    StartError,
    Stillborn,
)
from hack.embedded.runtime.process_groups import ProcessGroups
from hack.embedded.runtime.records import ContainerRecords

OnStart = Callable[[Mapping[str, Any], str, Mapping[str, bytes], Mapping[str, str]], int | None]
"""Called as (pod, container name, files by container path, environment); an int ends the container with that code."""


Stubborn = Callable[[ContainerSpec], bool]
"""Says of a container whether it ignores SIGTERM."""


def never(_: ContainerSpec) -> bool:
    """No container is stubborn."""
    return False


class MinimalContainer:
    """A container that is only a record. It ends when it is told to."""

    problem = ""

    def __init__(
        self, spec: ContainerSpec, on_end: Callable[["MinimalContainer", int], None], *, stubborn: bool
    ) -> None:
        self.spec = spec
        self.id = secrets.token_hex(16)
        self.exit_code: int | None = None
        self._on_end = on_end
        self._stubborn = stubborn

    def terminate(self) -> None:
        """End with 143, unless it is stubborn."""
        if not self._stubborn:
            self._on_end(self, 143)

    def kill(self) -> None:
        """End the container with exit code 137."""
        self._on_end(self, 137)


class MinimalRuntime:
    """A runtime of minimal containers; those for which `stubborn(spec)` is true ignore SIGTERM."""

    def __init__(
        self,
        cdi: CdiCache,
        groups: ProcessGroups,
        on_start: OnStart,
        stubborn: Stubborn = never,
    ) -> None:
        self._cdi = cdi
        self._groups = groups
        self._on_start = on_start
        self._stubborn = stubborn
        self._records = ContainerRecords()
        self._lock = threading.Lock()
        self._live: set[str] = set()
        self._on_exit: Callable[[RunningContainer], None] = lambda _: None
        self.open_sandbox = groups.open_sandbox
        self.close_sandbox = groups.close_sandbox
        self.sandboxes = groups.sandboxes

    def listen(self, on_exit: Callable[[RunningContainer], None]) -> None:
        """Call `on_exit` for every container that ends from now on."""
        self._on_exit = on_exit

    def create(self, spec: ContainerSpec) -> RunningContainer:
        """Resolve the CDI devices, read the mounted files, call `on_start`. Raises CreateError and StartError."""
        try:
            edits = self._cdi.resolve(spec.devices)
        except CdiError as error:
            raise CreateError(str(error)) from None
        try:
            files = {mount.target: _content(Path(mount.source)) for mount in edits.mounts}
        except OSError as error:
            stillborn = Stillborn(spec, str(error))
            self._records.add(stillborn)
            raise StartError(stillborn) from None
        container = MinimalContainer(spec, self._end, stubborn=self._stubborn(spec))
        with self._lock:
            self._live.add(container.id)
        self._groups.add(spec.pod_uid, container.id, self._groups.idle)
        self._records.add(container)
        code = self._on_start(spec.pod, spec.name, files, {**spec.plugin_env, **spec.env, **edits.env})
        if code is not None:
            self._end(container, code)
        return container

    def containers(self) -> list[RunningContainer]:
        """The newest attempt of every container whose pod was not forgotten."""
        return self._records.all()

    def forget(self, pod_uid: str) -> None:
        """Drop the records of a pod whose containers have all ended."""
        self._records.forget(pod_uid)

    def close(self) -> None:
        """End every container."""
        for container in self._records.all():
            container.kill()

    def _end(self, container: MinimalContainer, code: int) -> None:
        with self._lock:
            if container.id not in self._live:
                return
            self._live.discard(container.id)
        self._groups.remove(container.spec.pod_uid, container.id)
        container.exit_code = code
        self._on_exit(container)


def _content(source: Path) -> bytes:
    """The content of a file; empty for a folder, which must exist too."""
    return b"" if source.is_dir() else source.read_bytes()
