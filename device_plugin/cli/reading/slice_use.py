"""What containers use of their slices, as the node agents export it: asked of the agents, or of a Prometheus."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

from device_plugin.adapters.kube.client import KubeClient
from device_plugin.cli.access.prometheus import Prometheus
from device_plugin.core.errors import VgpuError
from device_plugin.core.pods import Agent
from device_plugin.kube.api import AGENT_LABELS, AGENTS, Where
from device_plugin.kube.errors import ApiError, RefusedError

USED, LIMIT, COMPUTE = (
    "vgpu_slice_memory_used_bytes",
    "vgpu_slice_memory_limit_bytes",
    "vgpu_slice_compute_ratio",
)
# Agents that are asked at a time.
AT_A_TIME = 16
FORBIDDEN = 403
_SAMPLE = re.compile(rf"^({USED}|{LIMIT}|{COMPUTE})\{{([^\n]*)\}} ([0-9.e+-]{{1,30}})$", re.MULTILINE)
_LABEL = re.compile(r'([a-z_]+)="((?:[^"\\\n]|\\.)*)"')


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


_Sample = tuple[str, Mapping[str, str], float]
"""A metric's name, its labels, and its value."""


def from_agents(client: KubeClient, agents: str, namespace: str) -> tuple[Sequence[SliceUse], list[str]]:
    """The use that the agents in namespace `agents` tell, of pods of `namespace` (empty: all), and who did not answer.

    Raises UseUnknownError where the caller may not ask them; ApiError.
    """
    try:
        found = [
            agent for agent in client.list(AGENTS, Where(agents, labels=AGENT_LABELS)).items if agent.address
        ]
    except RefusedError as error:
        raise _forbidden(agents, error) from error
    if not found:
        raise UseUnknownError(f"use is not known: no node agent runs in namespace {agents}")
    samples, failed = list[_Sample](), list[str]()
    with ThreadPoolExecutor(AT_A_TIME) as pool:
        for agent, answer in zip(
            found, pool.map(lambda agent: _asked(client, agents, agent), found), strict=True
        ):
            if isinstance(answer, RefusedError) and answer.status == FORBIDDEN:
                raise _forbidden(agents, answer)
            if isinstance(answer, ApiError):
                failed.append(f"the agent of {agent.node} does not answer: {answer}")
            else:
                samples += _samples(answer)
    return _uses(samples, namespace), failed


def from_prometheus(prometheus: Prometheus, namespace: str) -> Sequence[SliceUse]:
    """The use that a Prometheus knows, of pods of `namespace` (empty: all). Raises PrometheusError."""
    found = prometheus.now(f'{{__name__=~"{USED}|{LIMIT}|{COMPUTE}"}}')
    return _uses(((each.labels["__name__"], each.labels, each.values[-1][1]) for each in found), namespace)


def _forbidden(agents: str, error: ApiError) -> UseUnknownError:
    return UseUnknownError(
        f"use is not known, and what is granted is shown: {error}. A rule that allows to ask:"
        f' apiGroups: [""], resources: [pods, pods/proxy], verbs: [list, get], in a Role of namespace {agents}'
    )


def _asked(client: KubeClient, namespace: str, agent: Agent) -> str | ApiError:
    """The metrics of an agent, or why there are none."""
    port = agent.address.rpartition(":")[2]
    try:
        return client.text(f"/api/v1/namespaces/{namespace}/pods/{agent.pod}:{port}/proxy/metrics")
    except ApiError as error:
        return error


def _samples(text: str) -> Iterator[_Sample]:
    for name, labels, value in _SAMPLE.findall(text):
        yield name, dict(_LABEL.findall(labels)), float(value)


def _uses(samples: Iterable[_Sample], namespace: str) -> Sequence[SliceUse]:
    """The samples by slice."""
    found: dict[tuple[str, str, str, str, str], dict[str, float]] = {}
    for name, labels, value in samples:
        # Prometheus keeps the slice's own labels under these names where it was not told to honour them.
        its = {
            key: labels.get(f"exported_{key}", labels.get(key, ""))
            for key in ("namespace", "pod", "container")
        }
        if namespace in ("", its["namespace"]):
            key = (
                its["namespace"],
                its["pod"],
                its["container"],
                labels.get("node", ""),
                labels.get("card", ""),
            )
            found.setdefault(key, {})[name] = value
    return [
        SliceUse(*key, values.get(USED), values.get(LIMIT), values.get(COMPUTE))
        for key, values in sorted(found.items())
    ]
