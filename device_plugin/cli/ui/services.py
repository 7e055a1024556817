"""Asks the cluster service for its reservations, and the job engine for its plans, through forwarded ports.

Both need kubectl and the right to forward a port. Without them the page shows only what objects in the API show, and
says so.
"""

import argparse
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from device_plugin.adapters.kube.client import KubeClient
from device_plugin.cli import why
from device_plugin.cli.access import engine
from device_plugin.cli.access.engine import NoEngineError
from device_plugin.cli.ui.asking import Asking
from device_plugin.cli.ui.entries import PageEntries
from device_plugin.core.errors import VgpuError
from device_plugin.kube.api import PODS, Ref
from device_plugin.kube.errors import GoneError

# Seconds until the job engine is asked again, after an answer and after a failure.
ASK_SECONDS, AGAIN_SECONDS = 10.0, 60.0


class PodWhy:
    """Answers why a pod has no card, as `vgpu why` does, with the cluster service's reservations if we may read them.

    An answer lists all nodes and pods, so only one is made at a time, and only for pods that the page shows as waiting.
    """

    def __init__(self, client: KubeClient, args: argparse.Namespace, entries: PageEntries) -> None:
        self._client = client
        self._entries = entries
        self._args = args
        self._lock = threading.Lock()

    def answer(self, query: Mapping[str, str]) -> object:
        """Returns a `paragraph` about the pod that `pod` names (NAMESPACE/NAME), or a `problem`.

        Raises LookupError if the page shows no such waiting pod, or if it is gone.
        """
        wanted = query.get("pod", "")
        if wanted not in self._entries.keys("waiting"):
            raise LookupError("this pod does not wait")
        namespace, _, name = wanted.partition("/")
        with self._lock:
            try:
                found = self._client.get(PODS.json, Ref(name, namespace))
                return {"paragraph": why.about_pod(self._client, self._args, found).answer.as_paragraph()}
            except GoneError:
                raise LookupError("this pod is gone") from None
            except VgpuError as error:
                return {"problem": str(error)}


class JobPlans(Asking):
    """Asks the job engine for its jobs every ASK_SECONDS while a browser shows the page.

    `tell` is called with the jobs, and with a sentence that says where they are from.
    """

    def __init__(
        self, ask: Callable[[], Sequence[Mapping[str, Any]]],
        tell: Callable[[Sequence[Mapping[str, Any]], str], None], is_open: Callable[[], bool],
    ) -> None:  # fmt: skip
        super().__init__("ui-plans", is_open)
        self._ask = ask
        self._tell = tell

    @classmethod
    def of(
        cls, client: KubeClient, args: argparse.Namespace,
        tell: Callable[[Sequence[Mapping[str, Any]], str], None], is_open: Callable[[], bool],
    ) -> "JobPlans":  # fmt: skip
        """Returns the JobPlans object that gets its answers from the cluster's job engine."""
        return cls(lambda: engine.jobs(client, args), tell, is_open)

    def step(self) -> float:
        """Ask the job engine once, and call `tell`; returns the seconds until the next question."""
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
