"""Reads containers' use of their slices from the metrics of the node agents, or from a Prometheus.

Each agent costs a request through the API server, so only the agents of the listed pods' nodes are asked, MOST_AGENTS
at most.
"""

import argparse
import json
import re
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from device_plugin.adapters.kube.client import KubeClient
from device_plugin.adapters.metrics import read_samples
from device_plugin.cli.access import prometheus
from device_plugin.cli.access.caller import NAMESPACE
from device_plugin.cli.access.prometheus import Prometheus, PrometheusError
from device_plugin.cli.reading.cluster import ClusterReading
from device_plugin.cli.reading.held_use import SliceKey, SliceUse
from device_plugin.core.errors import VgpuError
from device_plugin.core.pods import Agent
from device_plugin.kube.api import AGENT_LABELS, AGENTS, Where
from device_plugin.kube.errors import ApiError, ForbiddenError, RefusedError, UnknownError

USED, LIMIT, COMPUTE, IDLE, PEAK, OBSERVED = METRICS = (
    "vgpu_slice_memory_used_bytes",
    "vgpu_slice_memory_limit_bytes",
    "vgpu_slice_compute_ratio",
    "vgpu_slice_idle_seconds",
    "vgpu_slice_memory_peak_bytes",
    "vgpu_slice_observed_seconds",
)
# Of several samples of a slice, as of two agents of a node, the largest counts; of times, the shortest.
_CHOSEN: Mapping[str, Callable[[float, float], float]] = {IDLE: min, OBSERVED: min}
# Agents that are asked at the same time, and most agents that are asked.
AT_A_TIME, MOST_AGENTS = 32, 200
# Seconds in which all agents together must answer: a list is not to wait for agents that hang.
PATIENCE_SECONDS = 3.0
# Up to this number of nodes, a list is made for each node's agent: a list of all agents may have thousands of pods.
FEW_NODES = 8
# Seconds for which an answer is used again with --watch; with --live, if few agents give it.
FRESH_SECONDS, LIVE_SECONDS = 10.0, 2.0
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
    """The use of slices cannot be read; the text says why, and how to allow it."""


_Sample = tuple[str, Mapping[str, str], float]
"""A metric's name, its labels, and its value."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options --prometheus and --agents-namespace."""
    prometheus.add_argument(parser)
    add_agents(parser)


def add_agents(parser: argparse.ArgumentParser) -> None:
    """Add the option --agents-namespace."""
    parser.add_argument(
        "--agents-namespace", default=NAMESPACE, metavar="NAMESPACE", help=f"of the node agents (default: {NAMESPACE})"
    )  # fmt: skip


def is_shown(args: argparse.Namespace, *columns: str) -> bool:
    """True if a list needs the use of slices.

    With `-o name` a list shows names alone; it then needs the use only if it is sorted by one of `columns`.
    """
    return args.output != "name" or (args.sort_by or "").lstrip("-") in columns


class SliceUseReader:
    """Reads the use of slices of pods of `namespace` (empty: of all), and keeps the answer for FRESH_SECONDS.

    With --live the answer of the agents of at most FEW_NODES nodes is kept for LIVE_SECONDS only. If use is not
    `wanted`, no agent is asked, and no use is known.

    `notes` has a sentence for each question that was not answered the last time.
    """

    def __init__(
        self, client: KubeClient, args: argparse.Namespace, namespace: str, *, wanted: bool = True
    ) -> None:
        """`namespace` is the namespace of the pods (empty: all). If `wanted` is false, use is not read and not known.

        Raises PrometheusError if --prometheus is not a URL.
        """
        self._client = client
        self._agents: str = args.agents_namespace
        self._prometheus = Prometheus(args.prometheus) if args.prometheus else None
        self._namespace = namespace
        self._live: bool = getattr(args, "live", False)
        self._wanted = wanted
        self._asked: float | None = None
        self._found: Mapping[SliceKey, SliceUse] = {}
        self.notes: Sequence[str] = ()

    def read(self, nodes: Collection[str]) -> Mapping[SliceKey, SliceUse]:
        """Returns the use of slices on these nodes, as far as it is known. Raises ApiError.

        While the latest answer is kept, it is returned again, whatever the nodes are.
        """
        now = time.monotonic()
        if not self._wanted:
            return {}
        soon = self._live and self._prometheus is None and len(nodes) <= FEW_NODES
        if self._asked is None or now - self._asked >= (LIVE_SECONDS if soon else FRESH_SECONDS):
            self._asked = now
            self._found, self.notes = known_uses(
                nodes, self._prometheus, self._agents, self._namespace, _NO_SERIES.format(self._agents),
                partial(from_agents, self._client, self._agents, self._namespace),
            )  # fmt: skip
        return self._found

    def shown_in(self, reading: ClusterReading, namespace: str = "") -> ClusterReading:
        """Returns the reading with the use of slices, as far as it is known. Raises ApiError.

        Only agents of nodes with slices of pods of `namespace` (empty: of any) are asked.
        """
        held = {
            card.node
            for card in reading.cards()
            for holder in card.holders
            if namespace in ("", holder.namespace)
        }
        return reading.with_use(self.read(held))


Found = tuple[Sequence[SliceUse], Sequence[str]]
"""The use of slices, and a sentence for each question that was not answered."""


def known_uses(
    nodes: Collection[str], prometheus: Prometheus | None, agents: str, namespace: str, no_series: str,
    ask_agents: Callable[[Collection[str]], Found],
) -> tuple[Mapping[SliceKey, SliceUse], Sequence[str]]:  # fmt: skip
    """Returns the use of slices on these nodes, as far as it is known, and a sentence for each unanswered question.

    A Prometheus is asked for pods of `namespace` (empty: all); `no_series` is the sentence if it has no series. Without
    one, `ask_agents` asks the agents of the nodes, which run in the namespace `agents`. Raises ApiError.
    """
    notes: Sequence[str] = ()
    try:
        if prometheus is None:
            uses, notes = ask_agents(nodes)
        else:
            uses = from_prometheus(prometheus, agents, namespace) if nodes else ()
            notes = () if uses or not nodes else (no_series,)
    except (UseUnknownError, PrometheusError) as error:
        return {}, (str(error),)
    return {(use.namespace, use.pod, use.container, use.card): use for use in uses}, notes


Ask = Callable[[Agent, float], str]
"""Returns the metrics of an agent before a deadline of time.monotonic. Raises ApiError, OSError, ValueError."""


def from_agents(
    client: KubeClient, agents: str, namespace: str, nodes: Collection[str], ask: Ask | None = None
) -> tuple[Sequence[SliceUse], list[str]]:
    """Returns the slice use of pods of `namespace` (empty: all), and a sentence for each agent without an answer.

    The agents of `nodes` are asked with `ask`, by default through the API server; they run in namespace `agents`.
    Agents that do not answer within PATIENCE_SECONDS are left out. Raises UseUnknownError if the caller may not ask
    them; ApiError.
    """
    ask = ask or partial(_through_api_server, client, agents)
    if not nodes:
        return (), []
    if len(nodes) > MOST_AGENTS:
        raise UseUnknownError(
            f"use is not known: the pods are on {len(nodes)} nodes, and at most {MOST_AGENTS} agents are asked: name a"
            " Prometheus with --prometheus, or fewer pods with -n or -l"
        )
    try:
        found = [agent for agent in _listed(client, agents, nodes) if agent.address]
    except RefusedError as error:
        raise _forbidden(agents, error) from error
    if not found:
        raise UseUnknownError(f"use is not known: no node agent runs in namespace {agents}")
    samples = list[_Sample]()
    failed = [f"no agent runs on {node}" for node in sorted({*nodes} - {agent.node for agent in found})]
    deadline = time.monotonic() + PATIENCE_SECONDS
    with ThreadPoolExecutor(AT_A_TIME) as pool:
        answers = pool.map(lambda agent: _asked(ask, agent, deadline), found)
        for agent, answer in zip(found, answers, strict=True):
            if isinstance(answer, ForbiddenError):
                raise _forbidden(agents, answer)
            if isinstance(answer, Exception):
                failed.append(f"the agent of {agent.node} does not answer: {answer}")
            else:
                samples += answer
    return _by_slice(samples, namespace), failed


def _listed(client: KubeClient, agents: str, nodes: Collection[str]) -> Sequence[Agent]:
    """Returns the agents of these nodes, as the API server lists them."""
    if len(nodes) > FEW_NODES:
        return [a for a in client.list(AGENTS, Where(agents, labels=AGENT_LABELS)).items if a.node in nodes]
    fields = [f"spec.nodeName={node}" for node in sorted(nodes)]
    return [
        agent for each in fields for agent in client.list(AGENTS, Where(agents, AGENT_LABELS, each)).items
    ]


def from_prometheus(prometheus: Prometheus, agents: str, namespace: str) -> Sequence[SliceUse]:
    """Returns the slice use of pods of `namespace` (empty: all) from a Prometheus. Raises PrometheusError.

    `agents` is the namespace of the agents: series whose labels show that another pod exported them are left out.
    """
    return _by_slice(
        (
            (metric, each.labels, each.values[-1][1])
            for metric in METRICS
            for each in prometheus.now(query_of(metric, agents, namespace))
        ),
        namespace,
    )


def query_of(metric: str, agents: str, namespace: str) -> str:
    """Returns the PromQL query for one metric of the slices of pods of `namespace` (empty: all).

    `agents` is the namespace of the agents. A tenant may export series with our names; the query leaves them out by two
    labels, `job` and `namespace`. For a monitor of Prometheus' operator, `job` is NAMESPACE/MONITOR. Without
    honor_labels, Prometheus sets `namespace` to the namespace of the scraped pod, and renames the series' own label to
    `exported_namespace`.
    """
    # A JSON text is a text of PromQL too.
    ours, job = json.dumps(agents), _job(agents)
    of = json.dumps(namespace)
    exported = f"exported_namespace={of}" if namespace else 'exported_namespace!=""'
    honoured = f",namespace={of}" if namespace else ""
    by = ",".join([*_OWN, *(f"{_EXPORTED}{label}" for label in _OWN), "node", "card"])
    return (
        f"{_CHOSEN.get(metric, max).__name__} by ({by}) ({metric}{{{job},{exported},namespace={ours}}}"
        f' or {metric}{{{job},exported_namespace=""{honoured}}})'
    )


def matchers_of_agents(agents: str) -> str:
    """Returns the PromQL label matchers that select the node agents' metrics of cards.

    `agents` is the namespace of the agents. Series that come from other pods do not match. Metrics of cards have no
    label `namespace` of their own.
    """
    return f"{_job(agents)},namespace=~{json.dumps(f'{re.escape(agents)}|')}"


def _job(agents: str) -> str:
    return f"job=~{json.dumps(f'{re.escape(agents)}/.*|[^/]*')}"


def own_labels(labels: Mapping[str, str]) -> tuple[str, str, str]:
    """Returns namespace, pod and container of a series, also where Prometheus has renamed their labels."""
    namespace, pod, container = (labels.get(f"{_EXPORTED}{label}", labels.get(label, "")) for label in _OWN)
    return namespace, pod, container


def _forbidden(agents: str, error: ApiError) -> UseUnknownError:
    return UseUnknownError(
        f"use is not known, and what is granted is shown: {error}. A rule that allows to ask:"
        f' apiGroups: [""], resources: [pods, pods/proxy], verbs: [list, get], in a Role of namespace {agents}'
    )


def _through_api_server(client: KubeClient, namespace: str, agent: Agent, deadline: float) -> str:
    """Returns an agent's metrics, which the API server fetches from the agent. Raises ApiError."""
    port = agent.address.rpartition(":")[2]
    return client.text(f"/api/v1/namespaces/{namespace}/pods/{agent.pod}:{port}/proxy/metrics", deadline)


def _asked(ask: Ask, agent: Agent, deadline: float) -> Sequence[_Sample] | ApiError | OSError | ValueError:
    """Returns the samples of slices that an agent exports; if it cannot be asked, returns the error."""
    if time.monotonic() >= deadline:
        return UnknownError("other agents took all of the time")
    try:
        text = ask(agent, deadline)
        return [(name, *sample) for name in METRICS for sample in read_samples(text, name, MOST_SLICES)]
    except (ApiError, OSError, ValueError) as error:
        return error


def _by_slice(samples: Iterable[_Sample], namespace: str) -> Sequence[SliceUse]:
    """Returns the use of each slice of pods of `namespace` (empty: all). Values out of range are left out."""
    found: dict[tuple[str, str, str, str, str], dict[str, float]] = {}
    for name, labels, value in samples:
        of, pod, container = own_labels(labels)
        if namespace in ("", of) and 0 <= value <= MOST_VALUE:
            values = found.setdefault(
                (of, pod, container, labels.get("node", ""), labels.get("card", "")), {}
            )
            values[name] = _CHOSEN.get(name, max)(value, values.get(name, value))
    return [SliceUse(*key, *map(values.get, METRICS)) for key, values in sorted(found.items())]
