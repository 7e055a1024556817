"""Our services as they run in the cluster: their pods, what /explain says, the processes in their containers."""

import json
import os
import signal
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from http.client import HTTPException
from pathlib import Path
from typing import Any

from device_plugin.kube.leases import LEASES
from tests.e2e.kubectl import Kubectl, KubectlError

AGENT_PORT, CLUSTER_PORT, EXTENDER_PORT = 9400, 9402, 9401
SYSTEM = Kubectl("vgpu-system")


def agent(node: str) -> str:
    """The name of the node agent's pod on a node. Raises KubectlError while one is replaced."""
    wanted = f"spec.nodeName={node}"
    pods = SYSTEM.items(labels="app.kubernetes.io/component=node", fields=wanted)
    staying = [pod["metadata"]["name"] for pod in pods if "deletionTimestamp" not in pod["metadata"]]
    if len(staying) != 1:
        raise KubectlError(f"{node} has {len(staying)} agents")
    return str(staying[0])


def restarts(node: str) -> int:
    """How often the agent on a node was started again, if it is Ready; -1 if it is not."""
    statuses = SYSTEM.pod(agent(node))["status"].get("containerStatuses", [])
    return next((int(status["restartCount"]) for status in statuses if status["ready"]), -1)


def replicas() -> list[str]:
    """The pods of the cluster service that are not on their way out."""
    pods = SYSTEM.items(labels="app.kubernetes.io/component=cluster")
    return [pod["metadata"]["name"] for pod in pods if "deletionTimestamp" not in pod["metadata"]]


def leader() -> str:
    """The replica whose scheduler holds the Lease; empty while nobody does. It may have ended since."""
    holder = SYSTEM.get(LEASES, "vgpu-scheduler")["spec"]["holderIdentity"]
    return str(holder.rpartition("_")[0])


def node_of(pod: str) -> str:
    """Where a pod of ours runs."""
    return str(SYSTEM.pod(pod)["spec"]["nodeName"])


@contextmanager
def _forwarded(pod: str, port: int) -> Iterator[str]:
    command = ["kubectl", "--namespace", SYSTEM.namespace, "port-forward", pod, f":{port}"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            # "Forwarding from 127.0.0.1:40001 -> 9401", and nothing where there is no such pod.
            words = process.stdout.readline().split()
            if not words:
                raise KubectlError(f"port {port} of pod '{pod}' cannot be forwarded")
            yield f"http://{words[2]}"
        finally:
            process.terminate()


def explain(replica: str) -> Mapping[str, Any]:
    """What the replica's /explain says, fetched as people do: through a port-forward. Raises KubectlError."""
    with _forwarded(replica, EXTENDER_PORT) as url:
        request = urllib.request.Request(f"{url}/explain", headers={"Accept": "application/json"})  # noqa: S310
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:  # noqa: S310 - http, by port-forward
                view: Mapping[str, Any] = json.load(answer)
        except (OSError, HTTPException, ValueError) as error:  # it ends, or begins, at this moment
            raise KubectlError(f"/explain of {replica}: {error}") from error
    return view


def why_not_ready(node: str) -> str:
    """The reasons of the node's agent for not being Ready, as its /readyz says them. Raises KubectlError."""
    with _forwarded(agent(node), AGENT_PORT) as url:
        try:
            urllib.request.urlopen(f"{url}/readyz", timeout=60).close()  # noqa: S310 - http, by port-forward
        except urllib.error.HTTPError as error:
            return error.read().decode()
        except (OSError, HTTPException) as error:  # the agent ends, or begins, at this moment
            raise KubectlError(f"/readyz of the agent on {node}: {error}") from error
    return ""


def ledger_slices(replica: str) -> list[tuple[Mapping[str, Any], Mapping[str, Any]]]:
    """Each slice in the replica's ledger, after its card, as /explain has them. Raises KubectlError."""
    cards = [card for node in explain(replica)["nodes"] for card in node["cards"]]
    return [(card, one) for card in cards for one in card["slices"]]


def held(replica: str) -> list[tuple[str, str, str]]:
    """What the replica's ledger says is held: (card, pod uid, container) of all bound slices, sorted."""
    return sorted((c["uuid"], s["uid"], s["container"]) for c, s in ledger_slices(replica) if s["bound"])


def processes(pod_uid: str, words: str) -> list[int]:
    """Processes of a pod whose command line holds `words`; the tests share the cluster's process ids."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            ours = pod_uid in (folder / "cgroup").read_text()
            command = (folder / "cmdline").read_text().replace("\0", " ")
        except OSError:
            continue
        if ours and words in command:
            found.append(int(folder.name))
    return found


def signal_all(pod: str, words: str, number: int) -> None:
    """Send a signal to every process of a pod of ours whose command line holds `words`; there must be one."""
    assert signalled(pod, words, number), f"{pod} has no process `{words}`"


def resume(pod: str, words: str) -> None:
    """Let the stopped processes of a pod of ours go on; the kubelet may have replaced them, as they did not answer."""
    signalled(pod, words, signal.SIGCONT)


def signalled(pod: str, words: str, number: int) -> list[int]:
    """Send a signal to each process of a pod of ours whose command line holds `words`; returns their ids, or none."""
    found = processes(SYSTEM.pod(pod)["metadata"]["uid"], words)
    for pid in found:
        with suppress(ProcessLookupError):  # it ended with the one before
            os.kill(pid, number)
    return found
