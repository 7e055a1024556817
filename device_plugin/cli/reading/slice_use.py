"""Reads containers' use of their slices, which the node agents export, from the agents or from a Prometheus.

Each agent costs a request through the API server, so only the agents of nodes that matter are asked, and few of them.
"""

import argparse
import json
import re
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

from device_plugin.adapters.kube.client import KubeClient
from device_plugin.adapters.metrics import read_samples
from device_plugin.cli.access import prometheus
from device_plugin.cli.access.caller import NAMESPACE
from device_plugin.cli.access.prometheus import Prometheus, PrometheusError
from device_plugin.core.errors import VgpuError
from device_plugin.core.pods import Agent
from device_plugin.kube.api import AGENT_LABELS, AGENTS, Where
from device_plugin.kube.errors import ApiError, ForbiddenError, RefusedError

USED, LIMIT, COMPUTE = (
    "vgpu_slice_memory_used_bytes",
    "vgpu_slice_memory_limit_bytes",
    "vgpu_slice_compute_ratio",
)
# Agents that are asked at a time, and most of them.
AT_A_TIME, MOST_AGENTS = 16, 200
# Up to this number of nodes each one's agent is listed by itself: a list of all may have thousands of pods.
FEW_NODES = 8
# Seconds for which an answer is good enough for a list that is followed.
FRESH_SECONDS = 10.0
# Values above it are not shown: no card has 2^60 bytes.
MOST_VALUE = 2.0**60
# Labels that Prometheus keeps under names with this prefix unless it is set to honour them (honor_labels).
_OWN = ("namespace", "pod", "container")
_EXPORTED = "exported_"
_NO_SERIES = (
    "use is not known: this Prometheus has no figures of these pods from node agents in namespace {}: correct"
    " --prometheus or --agents-namespace"
)
# Samples of a metric that are read of an agent: no node has more slices.
MOST_SLICES = 1024


class UseUnknownError(VgpuError):
    """The use of slices cannot be asked for; the text says why, and what would allow it."""


class SliceUse(NamedTuple):
    """A container's use of its slice of a card: bytes of memory and their limit, and its busy share of core groups.

    None is what is not known.
    """

    namespace: str
    pod: str
    container: str
    node: str
    card: str
    used: float | None
    limit: float | None
    compute: float | None


SliceKey = tuple[str, str, str, str]
"""Namespace, pod, container and card."""
_Sample = tuple[str, Mapping[str, str], float]
"""A metric's name, its labels, and its value."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options --prometheus and --agents-namespace."""
    prometheus.add_argument(parser)
    parser.add_argument(
        "--agents-namespace", default=NAMESPACE, metavar="NAMESPACE", help=f"of the node agents (default: {NAMESPACE})"
    )  # fmt: skip


class SliceUseReader:
    """Asks for the use of slices of pods of `namespace` (empty: of all), and keeps the answer for FRESH_SECONDS.

    `notes` say what was not answered the last time, and why.
    """

    def __init__(self, client: KubeClient, args: argparse.Namespace, namespace: str) -> None:
        """Raises PrometheusError for a --prometheus that is no URL."""
        self._client = client
        self._agents: str = args.agents_namespace
        self._prometheus = Prometheus(args.prometheus) if args.prometheus else None
        self._namespace = namespace
        self._asked: float | None = None
        self._found: Mapping[SliceKey, SliceUse] = {}
        self.notes: Sequence[str] = ()

    def read(self, nodes: Collection[str]) -> Mapping[SliceKey, SliceUse]:
        """The use of slices on these nodes, as far as it is known. Raises ApiError."""
        now = time.monotonic()
        if self._asked is None or now - self._asked >= FRESH_SECONDS:
            self._asked = now
            uses, self.notes = self._uses(nodes)
            self._found = {(use.namespace, use.pod, use.container, use.card): use for use in uses}
        return self._found

    def _uses(self, nodes: Collection[str]) -> tuple[Sequence[SliceUse], Sequence[str]]:
        try:
            if self._prometheus is not None:
                found = from_prometheus(self._prometheus, self._agents, self._namespace)
                return found, () if found or not nodes else (_NO_SERIES.format(self._agents),)
            return from_agents(self._client, self._agents, self._namespace, nodes)
        except (UseUnknownError, PrometheusError) as error:
            return (), (str(error),)


def from_agents(
    client: KubeClient, agents: str, namespace: str, nodes: Collection[str]
) -> tuple[Sequence[SliceUse], list[str]]:
    """The slice use of pods of `namespace` (empty: all), from the agents of `nodes`, which run in namespace `agents`.

    With it comes what was not answered. Raises UseUnknownError where the caller may not ask them; ApiError.
    """
    if len(nodes) > MOST_AGENTS:
        raise UseUnknownError(
            f"use is not known: the pods are on {len(nodes)} nodes, and at most {MOST_AGENTS} agents are asked: name a"
            " Prometheus with --prometheus, or fewer pods with -n or -l"
        )
    try:
        found = [agent for agent in _listed(client, agents, nodes) if agent.address]
    except RefusedError as error:
        raise _forbidden(agents, error) from error
    if nodes and not found:
        raise UseUnknownError(f"use is not known: no node agent runs in namespace {agents}")
    samples = list[_Sample]()
    failed = [f"no agent runs on {node}" for node in sorted({*nodes} - {agent.node for agent in found})]
    with ThreadPoolExecutor(AT_A_TIME) as pool:
        for agent, answer in zip(
            found, pool.map(lambda agent: _asked(client, agents, agent), found), strict=True
        ):
            if isinstance(answer, ForbiddenError):
                raise _forbidden(agents, answer)
            if isinstance(answer, Exception):
                failed.append(f"the agent of {agent.node} does not answer: {answer}")
            else:
                samples += answer
    return _by_slice(samples, namespace), failed


def _listed(client: KubeClient, agents: str, nodes: Collection[str]) -> Sequence[Agent]:
    """The agents of these nodes."""
    if len(nodes) > FEW_NODES:
        return [a for a in client.list(AGENTS, Where(agents, labels=AGENT_LABELS)).items if a.node in nodes]
    fields = [f"spec.nodeName={node}" for node in sorted(nodes)]
    return [
        agent for each in fields for agent in client.list(AGENTS, Where(agents, AGENT_LABELS, each)).items
    ]


def from_prometheus(prometheus: Prometheus, agents: str, namespace: str) -> Sequence[SliceUse]:
    """The use that a Prometheus knows, of pods of `namespace` (empty: all). Raises PrometheusError.

    `agents` is the namespace of the agents: series of other scrapes are left out where their labels show it.
    """
    return _by_slice(
        (
            (metric, each.labels, each.values[-1][1])
            for metric in (USED, LIMIT, COMPUTE)
            for each in prometheus.now(query_of(metric, agents, namespace))
        ),
        namespace,
    )


def query_of(metric: str, agents: str, namespace: str) -> str:
    """The query for one metric of the slices, in PromQL; the arguments are those of from_prometheus.

    A tenant may export series of our names, and have a Prometheus scrape them. Jobs of other monitors of Prometheus'
    operator are NAMESPACE/MONITOR, and a scrape that keeps a series' own namespace as `exported_namespace` writes its
    target's namespace over it.
    """
    # A JSON text is a text of PromQL too.
    ours = json.dumps(agents)
    job = f"job=~{json.dumps(f'{re.escape(agents)}/.*|[^/]*')}"
    of = json.dumps(namespace)
    exported = f"exported_namespace={of}" if namespace else 'exported_namespace!=""'
    honoured = f",namespace={of}" if namespace else ""
    by = ",".join([*_OWN, *(f"{_EXPORTED}{label}" for label in _OWN), "node", "card"])
    return (
        f"max by ({by}) ({metric}{{{job},{exported},namespace={ours}}}"
        f' or {metric}{{{job},exported_namespace=""{honoured}}})'
    )


def _forbidden(agents: str, error: ApiError) -> UseUnknownError:
    return UseUnknownError(
        f"use is not known, and what is granted is shown: {error}. A rule that allows to ask:"
        f' apiGroups: [""], resources: [pods, pods/proxy], verbs: [list, get], in a Role of namespace {agents}'
    )


def _asked(client: KubeClient, namespace: str, agent: Agent) -> Sequence[_Sample] | ApiError | ValueError:
    """The samples that an agent exports of its slices, or why there are none."""
    port = agent.address.rpartition(":")[2]
    try:
        text = client.text(f"/api/v1/namespaces/{namespace}/pods/{agent.pod}:{port}/proxy/metrics")
        return [
            (name, *sample)
            for name in (USED, LIMIT, COMPUTE)
            for sample in read_samples(text, name, MOST_SLICES)
        ]
    except (ApiError, ValueError) as error:
        return error


def _by_slice(samples: Iterable[_Sample], namespace: str) -> Sequence[SliceUse]:
    """The samples by slice; of several the largest. Values that are no amounts are left out."""
    found: dict[tuple[str, str, str, str, str], dict[str, float]] = {}
    for name, labels, value in samples:
        of, pod, container = (labels.get(f"{_EXPORTED}{label}", labels.get(label, "")) for label in _OWN)
        if namespace in ("", of) and 0 <= value <= MOST_VALUE:
            values = found.setdefault(
                (of, pod, container, labels.get("node", ""), labels.get("card", "")), {}
            )
            values[name] = max(value, values.get(name, value))
    return [
        SliceUse(*key, values.get(USED), values.get(LIMIT), values.get(COMPUTE))
        for key, values in sorted(found.items())
    ]
