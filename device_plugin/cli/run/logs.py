"""Prints the output of a Job's pods, which come and go.

A kubectl runs for each pod that runs. If its connection breaks, another kubectl continues after the last printed line.
"""

import re
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, BinaryIO, cast

from device_plugin.cli.run.console import Console
from device_plugin.cli.run.kubectl import Kubectl, as_line
from device_plugin.cli.run.objects import RunError
from device_plugin.cli.run.pods import JobPod
from device_plugin.kube.errors import UnknownError

# Pods whose output is read at the same time; the others are read when these have ended.
MOST_AT_ONCE = 20
AGAIN_SECONDS, TRIES = 1.0, 3
# Seconds between two looks for output that is left.
REST_SECONDS = 0.1
# A list of thousands of pods takes the API server seconds. The pause after a list is this many times as long.
RARER = 10
# Bytes of a line that are in memory at once.
PIECE = 64 * 1024
# Times as the kubelet writes them: always with nine digits, so that texts are in the order of their times.
_TIMED = re.compile(rb"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}(?:Z|[+-]\d\d:\d\d)) ")


class PodLog:
    """Copies the output of one pod's container to the console, in a thread of its own, until `over`.

    The caller sets `ended` when the pod has ended: a kubectl that starts after that prints the rest of the output.
    """

    def __init__(
        self,
        kubectl: Kubectl,
        pod: JobPod,
        prefix: bytes,
        console: Console,
        *,
        tail: int | None,
        follow: bool,
    ) -> None:
        """Print the last `tail` lines, or all (None), each after `prefix`; then, if `follow`, also later lines."""
        self.ended = threading.Event()
        self._kubectl = kubectl
        self._pod = pod
        self._prefix = prefix
        self._console = console
        self._tail = tail
        self._follow = follow
        self._last = b""
        self._stopping = threading.Event()
        self._process: Any = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    @property
    def over(self) -> bool:
        """True once all output is printed, or no more can be read."""
        return not self._thread.is_alive()

    def join(self, seconds: float) -> None:
        """Wait until all output is printed, for `seconds` at most."""
        self._thread.join(seconds)

    def stop(self) -> None:
        """Print no more output, and end the pod's kubectl."""
        self._stopping.set()
        if self._process is not None:
            with suppress(ProcessLookupError):
                self._process.kill()

    def _run(self) -> None:
        failures = 0
        while not self._stopping.is_set():
            whole = self.ended.is_set() or not self._follow
            try:
                problem = self._copy()
            except RunError as error:
                problem = str(error)
            failures = failures + 1 if problem else 0
            if failures == TRIES and not self._stopping.is_set():
                self._console.say(f"the output of pod {self._pod.name} cannot be read: {problem}")
            if (whole and not problem) or failures == TRIES:
                return
            self._stopping.wait(AGAIN_SECONDS)

    def _copy(self) -> str:
        """Run kubectl once and print its output; returns its error as text, empty after success."""
        with self._kubectl.logs(
            self._pod.name,
            self._pod.container,
            since=self._last.decode(),
            tail=self._tail,
            follow=self._follow,
        ) as process:
            self._process = process
            if self._stopping.is_set():
                process.kill()
            printed, said = cast(BinaryIO, process.stdout), cast(BinaryIO, process.stderr)
            fresh, wanted = True, True
            while piece := printed.readline(PIECE):
                if fresh:
                    piece, wanted = self._read(piece)
                fresh = piece.endswith(b"\n")
                if wanted:
                    self._console.output(piece)
            problem = said.read(PIECE)
        return as_line(problem) if process.returncode else ""

    def _read(self, line: bytes) -> tuple[bytes, bool]:
        """Returns the line with its pod's prefix in place of the time, and true if it was not printed before."""
        found = _TIMED.match(line)
        if found is None:
            return self._prefix + line, True
        new = found[1] > self._last
        if new:
            self._last = found[1]
        return self._prefix + line[found.end() :], new


class Logs:
    """Prints the output of pods; if `labelled`, each line begins with the pod's label.

    The last `tail` lines of each pod are printed, or all lines (None); then, if `follow`, also later lines. Without
    `follow`, one pod is printed after the other.
    """

    def __init__(
        self,
        kubectl: Kubectl,
        console: Console,
        *,
        labelled: bool,
        tail: int | None = None,
        follow: bool = True,
    ) -> None:
        self._kubectl = kubectl
        self._console = console
        self._labelled = labelled
        self._tail = tail
        self._follow = follow
        self._at_once = MOST_AT_ONCE if follow else 1
        self._running: dict[str, PodLog] = {}
        self._waiting: deque[JobPod] = deque()
        self._seen: set[str] = set()
        # The UIDs of the pods that have not ended; and whether it was said that some pods wait to be read.
        self._there: set[str] = set()
        self._said_waiting = False

    def look(self, pods: Sequence[JobPod]) -> None:
        """Start to read the output of new pods, and note which pods have ended."""
        for pod in sorted(pods, key=lambda pod: pod.created):
            if pod.has_run and pod.uid not in self._seen:
                self._seen.add(pod.uid)
                self._waiting.append(pod)
        self._there = {pod.uid for pod in pods if not pod.ended}
        for uid, log in self._running.items():
            if uid not in self._there:
                log.ended.set()
        self._start()
        if self._follow and self._waiting and not self._said_waiting:
            self._said_waiting = True
            self._console.say(
                f"{len(self._waiting)} more pods run: the output of {MOST_AT_ONCE} is read at the same time, and theirs"
                " once one of these has ended"
            )

    def _start(self) -> None:
        """Start to read waiting pods, up to the number of pods that are read at the same time."""
        self._running = {uid: log for uid, log in self._running.items() if not log.over}
        while self._waiting and len(self._running) < self._at_once:
            pod = self._waiting.popleft()
            prefix = f"[{pod.label}] ".encode() if self._labelled else b""
            self._running[pod.uid] = log = PodLog(
                self._kubectl, pod, prefix, self._console, tail=self._tail, follow=self._follow
            )
            if pod.uid not in self._there:
                log.ended.set()

    @property
    def busy(self) -> bool:
        """True while some output is not printed yet."""
        return bool(self._waiting) or any(not log.over for log in self._running.values())

    def print_rest(self, pods: Callable[[], Sequence[JobPod]], seconds: float) -> bool:
        """Print the output that is left, for `seconds` at most; returns true if all of it is printed.

        `pods` returns the Job's pods as they are now.
        """
        limit = time.monotonic() + seconds
        look_at = 0.0
        while self.busy and not self._console.closed and (now := time.monotonic()) < limit:
            # Without --follow, a pod is read once, and no list is needed for that.
            if self._follow and now >= look_at:
                with suppress(UnknownError):
                    self.look(pods())
                ended = time.monotonic()
                look_at = ended + RARER * (ended - now)
            self._start()
            time.sleep(REST_SECONDS)
        return not self.busy

    def stop(self) -> None:
        """Print no more output, and end the kubectl of each pod."""
        for log in self._running.values():
            log.stop()
        for log in self._running.values():
            log.join(AGAIN_SECONDS)
