"""Calls kubectl for commands on Jobs: for logs, to run programs in containers, and to copy files out of them."""

import logging
import os
import shlex
import subprocess
from collections.abc import Sequence

from device_plugin.cli.access.kubectl_says import last_sentence
from device_plugin.cli.run.objects import CONTAINER, RunError

log = logging.getLogger(__name__)

SECONDS = 30.0


class Kubectl:
    """kubectl with the caller's kubeconfig, in one namespace. `options` choose the context and the user."""

    def __init__(self, kubeconfig: str, namespace: str, options: Sequence[str] = ()) -> None:
        self._environment = {**os.environ, "KUBECONFIG": kubeconfig}
        self._options = (f"--namespace={namespace}", *options)

    def command(self, *words: str) -> Sequence[str]:
        """Returns the command line that calls kubectl with these words."""
        return ["kubectl", *self._options, *words]

    def logs(
        self, pod: str, container: str, *, since: str = "", tail: int | None = None, follow: bool = True
    ) -> "subprocess.Popen[bytes]":
        """Start `kubectl logs` for a container, with a time before each line; returns the process. Raises RunError.

        `since` is a time in RFC 3339: the output begins with the lines of that second. Without it, the output begins
        with the last `tail` lines. With `follow`, kubectl also prints later lines.
        """
        words = ["logs", pod, f"--container={container}", "--timestamps", *(["--follow"] if follow else [])]
        if since:
            words.append(f"--since-time={since}")
        elif tail is not None:
            words.append(f"--tail={tail}")
        return self._start(*words)

    def attached(self, *words: str) -> int:
        """Run kubectl on this process's terminal, and return its exit status. Raises RunError."""
        command = self.command(*words)
        log.debug("%s", shlex.join(command))
        try:
            return subprocess.run(command, env=self._environment, check=False).returncode
        except OSError as error:
            raise _not_run(error) from error

    def inside(self, pod: str, *command: str) -> bytes:
        """Run a command in the pod's container that `vgpu run` has named, and return its output. Raises RunError."""
        return self.said("exec", pod, f"--container={CONTAINER}", "--", *command)

    def said(self, *words: str, seconds: float | None = SECONDS) -> bytes:
        """Run kubectl, and return its output. Raises RunError if it fails or takes longer than `seconds`."""
        with self._start(*words) as process:
            try:
                printed, problem = process.communicate(timeout=seconds)
            except subprocess.TimeoutExpired:
                raise RunError(f"kubectl {words[0]} takes more than {seconds:g} s") from None
            finally:
                process.kill()
        if process.returncode:
            raise RunError(f"kubectl {words[0]}: {as_line(problem)}")
        return printed

    def _start(self, *words: str) -> "subprocess.Popen[bytes]":
        command = self.command(*words)
        log.debug("%s", shlex.join(command))
        try:
            # In a session of its own, so that Ctrl-C interrupts this command only.
            return subprocess.Popen(
                command, env=self._environment,
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
            )  # fmt: skip
        except OSError as error:
            raise _not_run(error) from error


def _not_run(error: OSError) -> RunError:
    return RunError(f"kubectl cannot be run ({error.strerror}): install it into a folder of $PATH")


def as_line(text: bytes) -> str:
    """Returns the last sentence that kubectl wrote on stderr, or a sentence that it wrote none."""
    return last_sentence(text.decode(errors="replace")) or "it fails without a word"
