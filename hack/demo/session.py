"""The demo's cluster as a background process, and the file with its addresses.

`$VGPU_CACHE/demo/session.json` (default ~/.cache/vgpu/demo) exists while a cluster runs:
`{"pid": 4711, "started": 123456, "root": "/tmp/vgpu-…", "api": "http://127.0.0.1:…", "explain": …, "engine": …,
"agent": …}`.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from device_plugin.core.errors import VgpuError
from vgpu_runtime.sim.hip import default_cache

START_SECONDS = 60.0
END_SECONDS = 30.0


class DemoError(VgpuError):
    """The demo cannot do what it was asked; the text says why."""


@dataclass(frozen=True)
class DemoSession:
    """A running demo cluster: its process, its folder, and the addresses to talk to."""

    pid: int
    started: int
    root: str
    api: str
    explain: str
    engine: str
    agent: str

    @property
    def alive(self) -> bool:
        """True while the session's process runs; a later process with the same id does not count."""
        return process_start(self.pid) == self.started


def file() -> Path:
    """The path of the session file; $VGPU_SESSION can name another path, for a second cluster."""
    named = os.environ.get("VGPU_SESSION")
    return Path(named) if named else default_cache() / "demo" / "session.json"


def process_start(pid: int) -> int | None:
    """The process's time of start, in clock ticks since boot (field 22 of proc(5) stat); None if it is gone."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
    except OSError:
        return None
    state, *fields = stat.rpartition(")")[2].split()
    return None if state == "Z" else int(fields[18])


def publish(session: DemoSession) -> None:
    """Write the session file atomically: readers never see a part of it."""
    target = file()
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = target.with_suffix(".tmp")
    temporary.write_text(json.dumps(asdict(session)), encoding="utf-8")
    temporary.replace(target)


def current() -> DemoSession | None:
    """The running session, or None."""
    try:
        session = DemoSession(**json.loads(file().read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return None
    return session if session.alive else None


def require() -> DemoSession:
    """Return the running session. Raises DemoError with the command that starts one."""
    session = current()
    if session is None:
        raise DemoError("no demo cluster is running: start one with `make demo KEEP=1`")
    return session


def forbid() -> None:
    """Raise DemoError if a cluster runs already, because its user may have pods on it."""
    if current() is not None:
        raise DemoError(
            "a demo cluster is running already: end it and its pods with `.venv/bin/vgpu demo end`, or use it:"
            ' eval "$(.venv/bin/vgpu demo env)"'
        )


def start() -> DemoSession:
    """Start a cluster in the background. Raises DemoError with the log's end if it does not start."""
    root = Path(tempfile.mkdtemp(prefix="vgpu-"))
    log = root / "demo.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "hack.demo.serve", str(root)],
            stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True,
        )  # fmt: skip
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        session = current()
        if session is not None and session.pid == process.pid:
            return session
        time.sleep(0.05)
    process.kill()
    process.wait()
    tail = "\n".join(log.read_text(errors="replace").splitlines()[-15:])
    shutil.rmtree(root, ignore_errors=True)
    raise DemoError(f"the demo cluster did not start; its log ends with:\n{tail}")


def end() -> bool:
    """End the running cluster and remove its folder; False if there was none."""
    session = current()
    if session is None:
        file().unlink(missing_ok=True)
        return False
    os.kill(session.pid, signal.SIGTERM)
    deadline = time.monotonic() + END_SECONDS
    while session.alive and time.monotonic() < deadline:
        time.sleep(0.05)
    if session.alive:
        os.kill(session.pid, signal.SIGKILL)
    shutil.rmtree(session.root, ignore_errors=True)
    file().unlink(missing_ok=True)
    return True
