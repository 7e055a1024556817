"""Containers without a process, for tests with tens of thousands of them.

CDI names are resolved and mounted files are read as for a real container; then a callback gets the files and variables
that a process would see. The node agent takes a minimal container for a live one: the container's file in the folder
of process groups names the process group of an idle process, which all minimal containers share. The file is removed
when the container ends.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from hack.embedded.runtime.cdi import CdiCache, Edits
from hack.embedded.runtime.containers import ContainerAttempt, ContainerSpec, Runtime
from hack.embedded.runtime.process_groups import ProcessGroups

OnStart = Callable[[Mapping[str, Any], str, Mapping[str, bytes], Mapping[str, str]], int | None]
"""Called as (pod, container name, files by container path, environment); an int ends the container with that code."""


class MinimalContainer(ContainerAttempt):
    """A container without a process; it ends when `terminate` or `kill` is called."""

    def __init__(self, spec: ContainerSpec, end: Callable[[ContainerAttempt, int], None]) -> None:
        super().__init__(spec)
        self._end = end

    def terminate(self) -> None:
        """End the container with exit code 143."""
        self._end(self, 143)

    def kill(self) -> None:
        """End the container with exit code 137."""
        self._end(self, 137)


class MinimalRuntime(Runtime):
    """A runtime of minimal containers."""

    def __init__(self, cdi: CdiCache, groups: ProcessGroups, on_start: OnStart) -> None:
        super().__init__(cdi, groups)
        self._on_start = on_start

    def _launch(self, spec: ContainerSpec, edits: Edits) -> ContainerAttempt:
        files = {mount.target: _content(Path(mount.source)) for mount in edits.mounts}
        container = MinimalContainer(spec, self._ended)
        self._started(container, self.groups.idle)
        code = self._on_start(spec.pod, spec.name, files, spec.environment(edits))
        if code is not None:
            self._ended(container, code)
        return container


def _content(source: Path) -> bytes:
    """The content of a file; empty for a folder. Raises OSError if it does not exist."""
    return b"" if source.is_dir() else source.read_bytes()
