"""hack/elastic-torch: torchrun's agents on loopback that leave, join and die, and the trainer goes on.

Three agents train with one rank each. One leaves by SIGTERM, one joins, one is killed together with its rank, and the
rest train on; then all leave by SIGTERM, and a new one ends the work. Printed for each is the time from the signal (or
the start of the new agent) to the first step of the new world size, and the steps that were done twice because no
checkpoint held them. The exit status is not 0 if the kill lost more steps than there are between two checkpoints, if
another change lost a step, or if the work does not end.

The Python and PyTorch are those of the image `trainer`, run in its folder. Needs root (mounts, chroot).
"""

import argparse
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from hack.elastic import steps
from hack.elastic.steps import Step
from hack.testbed.images import trainer
from vgpu_runtime.paths import SOURCES
from vgpu_runtime.sim.debian import DebianUnavailableError

PROGRAM = SOURCES.parent / "hack/elastic/train.py"
# Steps are slow enough to be counted, and there are more than the trial waits for.
STEPS, INTERVAL, STEP_SECONDS = 1_000_000, 20, 0.05
WAIT_SECONDS, LOOK_SECONDS, LOG_LINES = 120.0, 0.02, 40
# Runs a command in the image's folder as its root. It has the machine's devices, and the trial's folder as /tmp.
IN_TREE = """
for folder in dev proc sys; do mount --rbind /$folder "$1/$folder"; done
mount --bind "$2" "$1/tmp"
root=$1; shift 2
exec chroot "$root" "$@"
"""


def main() -> int:
    """Run the trial; returns 0 if every change lost at most the allowed number of steps."""
    parser = argparse.ArgumentParser(
        prog="hack/elastic-torch", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--settle", type=int, default=50, help="steps before each change (default: 50)")
    arguments = parser.parse_args()
    if os.geteuid() != 0:
        print("hack/elastic-torch needs root: run it with sudo -E", file=sys.stderr)
        return 2
    try:
        tree = trainer.tree()
    except DebianUnavailableError as error:
        print(f"hack/elastic-torch: {error}", file=sys.stderr)
        return 1
    with tempfile.TemporaryDirectory(prefix="elastic-") as folder, _running(tree, Path(folder)) as agents:
        return 0 if _changes(agents, arguments.settle) else 1


def _changes(agents: "Agents", settle: int) -> bool:
    """Make the changes one after another; true if each lost at most its allowed number of steps."""
    print(f"{'change':<8}{'ranks':>8}{'seconds':>9}{'steps lost':>12}")
    changes: Sequence[tuple[str, Callable[[], None], str, int, int]] = (
        ("start", lambda: agents.start(3), "0 → 3", 3, 0),
        ("leave", lambda: agents.end_last(signal.SIGTERM), "3 → 2", 2, 0),
        ("join", agents.start, "2 → 3", 3, 0),
        ("kill", lambda: agents.end_last(signal.SIGKILL), "3 → 2", 2, INTERVAL),
        ("stop", lambda: agents.begin_again(settle), "2 → 1", 1, 0),
    )
    good = True
    for name, change, ranks, world, most in changes:
        before, begin = agents.steps(), time.monotonic()
        change()
        agents.await_steps(1, world, since=len(before))
        seconds = time.monotonic() - begin
        agents.await_steps(settle, world, since=len(before))
        lost = steps.lost(agents.steps()) - steps.lost(before)
        print(f"{name:<8}{ranks:>8}{seconds:>9.1f}{lost:>12}", flush=True)
        good = good and lost <= most
    said = (agents.folder / "progress").read_text()
    status = agents.finish()
    print(f"the trainer says that it has done {said.strip()}; torchrun ended with status {status}")
    return good and status == 0


class Agents:
    """Agents of torchrun, each with one rank, that share a folder; the first agent serves the rendezvous."""

    def __init__(self, tree: Path, folder: Path) -> None:
        self.folder = folder
        self._tree = tree
        self._running: list[subprocess.Popen[bytes]] = []
        self._port, self._total = _free_port(), STEPS
        shutil.copy(PROGRAM, folder / "train.py")
        (folder / "progress").write_text(" " * 63 + "\n")

    def start(self, count: int = 1) -> None:
        """Start `count` agents, which join the others."""
        for _ in range(count):
            self._start()

    def _start(self) -> None:
        host = "false" if self._running else "true"  # fixed here, so that the agents do not compete for it
        settings = {
            "PATH": "/usr/bin:/bin:/usr/sbin:/sbin",
            "OMP_NUM_THREADS": "1",
            "GLOO_SOCKET_IFNAME": "lo",
            "PET_NNODES": "1:4",
            "PET_RDZV_BACKEND": "c10d",
            "PET_RDZV_ID": "trial",
            "PET_RDZV_ENDPOINT": f"127.0.0.1:{self._port}",
            "PET_RDZV_CONF": f"last_call_timeout=3,is_host={host}",
            "PET_MAX_RESTARTS": "1000",
            "VGPU_PROGRESS": "/tmp/progress",  # noqa: S108 - the trial's folder in the tree
        }
        program = ("/tmp/train.py", "--folder=/tmp", f"--steps={self._total}", f"--interval={INTERVAL}")  # noqa: S108
        inside = ("torchrun", "-r", "1", "-t", "1", *program, f"--step-seconds={STEP_SECONDS}")
        command = [
            "unshare",
            "--mount",
            "sh",
            "-ec",
            IN_TREE,
            "sh",
            str(self._tree),
            str(self.folder),
            *inside,
        ]
        with (self.folder / "log").open("ab") as log:
            self._running.append(
                subprocess.Popen(
                    command,
                    env=settings,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                )
            )

    def end_last(self, number: signal.Signals) -> None:
        """Send the signal to the newest agent; SIGKILL also ends its rank, as the end of a pod would."""
        agent = self._running.pop()
        if number == signal.SIGKILL:
            os.killpg(agent.pid, number)
        else:
            agent.send_signal(number)
        agent.wait()

    def begin_again(self, more: int) -> None:
        """Send SIGTERM to all agents, wait until they have ended, and start a new agent for `more` steps."""
        for agent in self._running:
            agent.send_signal(signal.SIGTERM)
        self.finish()
        self._port, self._total = _free_port(), self.steps()[-1].number + more
        self.start()

    def finish(self) -> int:
        """Wait until all agents have ended; returns the largest of their exit statuses."""
        statuses = [agent.wait(WAIT_SECONDS) for agent in self._running]
        self._running.clear()
        return max(statuses)

    def steps(self) -> list[Step]:
        """The steps done so far."""
        return steps.read_file(self.folder / "steps")

    def await_steps(self, count: int, world: int, since: int) -> None:
        """Return once `count` steps of this world size are done after the first `since` steps.

        Raises SystemExit with the end of the agents' log when an agent ended, and after WAIT_SECONDS.
        """
        end = time.monotonic() + WAIT_SECONDS
        while sum(step.world == world for step in self.steps()[since:]) < count:
            ended = any(agent.poll() is not None for agent in self._running)
            if ended or time.monotonic() > end:
                log = (self.folder / "log").read_text().splitlines()[-LOG_LINES:]
                why = "an agent ended" if ended else f"not in {WAIT_SECONDS:g} s"
                raise SystemExit("\n".join([*log, f"not {count} steps of {world} ranks: {why}"]))
            time.sleep(LOOK_SECONDS)

    def kill(self) -> None:
        """Kill all agents."""
        for agent in self._running:
            with suppress(ProcessLookupError):
                os.killpg(agent.pid, signal.SIGKILL)
            agent.wait()


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return int(free.getsockname()[1])


@contextmanager
def _running(tree: Path, folder: Path) -> Iterator[Agents]:
    agents = Agents(tree, folder)
    try:
        yield agents
    finally:
        agents.kill()


if __name__ == "__main__":
    sys.exit(main())
