"""Asks the services for reservations and the plans for jobs, which only they know, if the caller may forward a port.

Both take kubectl. Without it, or without the rights, the page has what objects alone show, and says so.
"""

import argparse
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from device_plugin.adapters.kube.client import KubeClient
from device_plugin.cli import why
from device_plugin.cli.access import engine
from device_plugin.cli.access.engine import NoEngineError
from device_plugin.cli.ui.entries import PageEntries
from device_plugin.core.errors import VgpuError
from device_plugin.kube.api import PODS, Ref
from device_plugin.kube.errors import GoneError

# Seconds between two questions to the job engine, and after a question that it did not answer.
ASK_SECONDS, AGAIN_SECONDS = 10.0, 60.0


class PodWhy:
    """Answers why a pod has no card as `vgpu why` does, with the cluster service's reservations if it may be asked.

    It lists all nodes and pods, so one question is answered at a time, about pods that the page shows as waiting.
    """

    def __init__(self, client: KubeClient, args: argparse.Namespace, entries: PageEntries) -> None:
        self._client = client
        self._entries = entries
        self._args = args
        self._lock = threading.Lock()

    def answer(self, query: Mapping[str, str]) -> object:
        """A `paragraph` about the pod that `pod` names as NAMESPACE/NAME, or a `problem`. Raises LookupError."""
        wanted = query.get("pod", "")
        if wanted not in self._entries.keys("waiting"):
            raise LookupError("this pod does not wait")
        namespace, _, name = wanted.partition("/")
        with self._lock:
            try:
                found = self._client.get(PODS.json, Ref(name, namespace))
                return {"paragraph": why.about_pod(self._client, self._args, found)["paragraph"]}
            except GoneError:
                raise LookupError("this pod is gone") from None
            except VgpuError as error:
                return {"problem": str(error)}


class JobPlans:
    """Asks the job engine for its jobs every ASK_SECONDS while the page is open somewhere.

    `tell` is called with the jobs, and with a sentence that says where they are from.
    """

    def __init__(
        self, ask: Callable[[], Sequence[Mapping[str, Any]]],
        tell: Callable[[Sequence[Mapping[str, Any]], str], None], is_open: Callable[[], bool],
    ) -> None:  # fmt: skip
        self._ask = ask
        self._tell = tell
        self._is_open = is_open
        self._stop = threading.Event()

    @classmethod
    def of(
        cls, client: KubeClient, args: argparse.Namespace,
        tell: Callable[[Sequence[Mapping[str, Any]], str], None], is_open: Callable[[], bool],
    ) -> "JobPlans":  # fmt: skip
        """Plans of the job engine of the cluster."""
        return cls(lambda: engine.jobs(client, args), tell, is_open)

    def start(self) -> None:
        """Start a thread that fetches the plans until the page ends."""
        threading.Thread(target=self._run, name="ui-plans", daemon=True).start()

    def close(self) -> None:
        """Stop asking the job engine; the thread ends."""
        self._stop.set()

    def _run(self) -> None:
        pause = 1.0
        while not self._stop.wait(pause):
            pause = self.step() if self._is_open() else 1.0

    def step(self) -> float:
        """Ask once; returns the seconds until it is worth asking again."""
        try:
            found = self._ask()
        except NoEngineError:
            self._tell((), "")
        except VgpuError as error:
            self._tell((), f"Place, progress and plans of jobs are not known: {error}")
        else:
            self._tell(found, "From the job engine, every 10 s.")
            return ASK_SECONDS
        return AGAIN_SECONDS
