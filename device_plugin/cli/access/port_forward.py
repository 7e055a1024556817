"""Asks a service at a port of its pod's loopback address, through kubectl's port-forward.

/explain and /decisions listen only there because they report on all namespaces: whoever may forward a port to the pod
may ask.
"""

import argparse
import os
import re
import signal
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from http.client import HTTPConnection, HTTPException
from tempfile import TemporaryFile
from threading import Timer
from typing import NamedTuple

from device_plugin.adapters.http.client import lost_text
from device_plugin.cli.access import caller
from device_plugin.cli.access.kubectl_says import last_sentence
from device_plugin.core.errors import VgpuError

TIMEOUT_SECONDS = 30.0


class ForwardError(VgpuError):
    """A service has no leader, or its port cannot be reached through kubectl; the text says why, and what to do.

    Cure: try `kubectl port-forward` to that pod, which must work for you.
    """


class PodPort(NamedTuple):
    """A port of a pod. `service` is the name of the service that listens there.

    `role` is the Role that gives the right to ask, with the page of the documentation that describes it.
    """

    service: str
    namespace: str
    pod: str
    port: int
    role: str


class Answered(NamedTuple):
    """Status and body of an answer, and its headers by their names in lower case."""

    status: int
    text: str
    headers: Mapping[str, str]


def forbidden(error: Exception, role: str) -> ForwardError:
    """Returns the error for a caller without the rights of `role`, such as ask-allocator."""
    return ForwardError(f"{error}: have an administrator bind the Role {role} to you")


def get(args: argparse.Namespace, of: PodPort, target: str, accept: str) -> Answered:
    """Returns the answer to one GET request through a forwarded port. Raises ForwardError."""
    with _forwarded(args, of) as port:
        connection = HTTPConnection("127.0.0.1", port, timeout=TIMEOUT_SECONDS)
        try:
            connection.request("GET", target, headers={"Accept": accept})
            answer = connection.getresponse()
            headers = {name.lower(): value for name, value in answer.getheaders()}
            return Answered(answer.status, answer.read().decode(errors="replace"), headers)
        except (OSError, HTTPException) as error:
            why = lost_text(error) if isinstance(error, OSError) else "its answer breaks off"
            raise ForwardError(
                f"{of.service} in {of.namespace} does not answer ({why}): try again"
            ) from error
        finally:
            connection.close()


@contextmanager
def _forwarded(args: argparse.Namespace, of: PodPort) -> Iterator[int]:
    """Yields a port of this machine that kubectl forwards to the port of the pod. Raises ForwardError."""
    words = [
        "kubectl", *caller.kubectl_words(args), f"--namespace={of.namespace}",
        "port-forward", "--address=127.0.0.1", f"pod/{of.pod}", f":{of.port}",
    ]  # fmt: skip
    with TemporaryFile("w+", errors="replace") as said:
        try:
            process = subprocess.Popen(
                words, env={**os.environ, "KUBECONFIG": caller.kubeconfig(args)}, text=True,
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=said, start_new_session=True,
            )  # fmt: skip
        except OSError as error:
            raise ForwardError(
                f"kubectl, by which {of.service} is asked, cannot be run ({error.strerror}): install it into a folder"
                " of $PATH"
            ) from error
        with process:
            try:
                port = _port(process)
                if port:
                    yield port
            finally:
                _end(process)
        if not port:
            said.seek(0)
            why = last_sentence(said.read()) or f"no answer within {TIMEOUT_SECONDS:g} s"
            failed = ForwardError(f"kubectl cannot forward a port to pod {of.namespace}/{of.pod}: {why}")
            raise forbidden(failed, of.role) if "forbidden" in why else failed


def _port(process: subprocess.Popen[str]) -> int:
    """Returns the port on which kubectl listens, from its output; 0 if kubectl ends or prints nothing in time."""
    limit = Timer(TIMEOUT_SECONDS, _end, (process,))
    limit.start()
    try:
        # "Forwarding from 127.0.0.1:40001 -> 9404"
        found = re.search(r"127\.0\.0\.1:([0-9]+) ", next(iter(process.stdout or ()), ""))
    finally:
        limit.cancel()
    return int(found[1]) if found else 0


def _end(process: subprocess.Popen[str]) -> None:
    """Kill kubectl's process group: `kubectl` may be a wrapper that runs another kubectl."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
