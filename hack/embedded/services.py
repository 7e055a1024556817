"""A service of vgpu as a process that the one-machine cluster can start, signal, kill and start again."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

READY_SECONDS = 600.0
# Lets the kernel kill the service when our process ends in any way: PR_SET_PDEATHSIG of prctl(2).
_TIED = "import ctypes, os, sys; ctypes.CDLL(None).prctl(1, 9); os.execv(sys.argv[1], sys.argv[1:])"


class ServiceError(Exception):
    """A service has ended, or did not serve in time; the text has the end of its log."""


class ServiceProcess:
    """A process of `vgpu` that listens on the address `host`.

    `addresses` has the addresses in its log line `listening http=…`, by name.
    """

    def __init__(
        self,
        name: str,
        arguments: Sequence[str],
        log: Path,
        env: Mapping[str, str],
        host: str = "127.0.0.1",
    ) -> None:
        self.name = name
        self.host = host
        self.addresses: dict[str, str] = {}
        service = [sys.executable, "-m", "hack.embedded", *arguments]
        self._arguments = [sys.executable, "-S", "-c", _TIED, *service]
        self._log = log
        self._env = {**os.environ, **env}
        self._process: subprocess.Popen[str] | None = None
        self._listening = threading.Event()
        self._reader: threading.Thread | None = None

    @property
    def pid(self) -> int:
        """The process id. Raises ServiceError if the process was never started."""
        if self._process is None:
            raise ServiceError(f"{self.name} was not started")
        return self._process.pid

    @property
    def running(self) -> bool:
        """True while the process runs."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Start the process without waiting; `wait` returns when it serves."""
        self._listening.clear()
        self._log.parent.mkdir(parents=True, exist_ok=True)
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                self._arguments, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log, text=True,
                env=self._env, start_new_session=True,
            )  # fmt: skip
        self._reader = threading.Thread(target=self._read, args=(self._process,), daemon=True)
        self._reader.start()

    def wait(self, seconds: float = READY_SECONDS) -> None:
        """Wait until the process listens. Raises ServiceError if it ends, or after `seconds`."""
        if not self._listening.wait(seconds) or not self.addresses:
            raise ServiceError(f"{self.name} does not serve; its log ends with:\n{self.log_tail()}")

    def signal(self, number: int) -> None:
        """Send a signal, if the process runs."""
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(number)

    def kill(self) -> None:
        """End the process as a crash would: send SIGKILL, then wait."""
        self.signal(signal.SIGKILL)
        self._join()

    def stop(self, seconds: float = 60.0) -> None:
        """End the process as Kubernetes would: send SIGTERM, and SIGKILL after `seconds`."""
        self.signal(signal.SIGTERM)
        try:
            if self._process is not None:
                self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.signal(signal.SIGKILL)
        self._join()

    def log_tail(self, lines: int = 20) -> str:
        """The last lines of the service's log."""
        try:
            return "\n".join(self._log.read_text(errors="replace").splitlines()[-lines:])
        except OSError:
            return ""

    def _read(self, process: "subprocess.Popen[str]") -> None:
        assert process.stdout is not None  # noqa: S101 - Popen was given a pipe
        with process.stdout as lines:
            for line in lines:
                words = line.split()
                if "listening" in words:
                    self.addresses = dict(word.split("=", 1) for word in words if "=" in word)
                    self._listening.set()
        self._listening.set()

    def _join(self) -> None:
        if self._process is not None:
            self._process.wait()
        if self._reader is not None:
            self._reader.join()
