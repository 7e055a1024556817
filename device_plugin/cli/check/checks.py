"""Checks of an installation, each from lists that were read: what is wrong, and its cure."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from device_plugin.cli.reading.cluster import ClusterReading
from device_plugin.core.cards import Inventory, memory_units
from device_plugin.core.errors import AnnotationError
from device_plugin.core.pods import Node
from device_plugin.core.requests import resource_names
from device_plugin.core.timestamps import seconds

SYSTEM, SCHEDULER_LEASE = "vgpu-system", "vgpu-scheduler"
# The admission policies of manifests/admission, and those of its component jobs.
POLICIES = (
    "vgpu-cdi-annotations", "vgpu-confinement", "vgpu-deletions", "vgpu-evictions", "vgpu-grace", "vgpu-grants",
    "vgpu-inventories", "vgpu-isolation", "vgpu-job-resizes", "vgpu-names", "vgpu-opted-out", "vgpu-quota",
    "vgpu-requests", "vgpu-selectors",
)  # fmt: skip
JOB_POLICIES = (
    "vgpu-job-checkpoint-requests", "vgpu-job-checkpoints", "vgpu-job-starts", "vgpu-jobs", "vgpu-queue-required-jobs",
    "vgpu-queue-required-pods",
)  # fmt: skip
MUTATING, JOB_MUTATING = ("vgpu-confinement-defaults", "vgpu-scheduler-name"), ("vgpu-job-suspension",)
# In a cluster without mutating policies this one only warns: its overlay says so.
WARNS = "vgpu-confinement"
# The scheduler renews its Lease every 2 s, a kubelet that of its node every 10 s.
LEASE_SECONDS, KUBELET_SECONDS = 15.0, 40.0
# Seconds that a clock may be ahead.
AHEAD_SECONDS = 5.0
# Most names that a text has.
NAMES = 8
# Most characters of an event's text, and most annotations that are named: whoever may write them can write many.
MOST_TEXT, MOST_FAULTS = 500, 20
Object = Mapping[str, Any]
Objects = Sequence[Object] | None
"""Objects as JSON; None where they could not be read."""


class CheckState(Enum):
    """The outcome of a check."""

    OK = "ok"
    PROBLEM = "problem"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Finding:
    """The outcome of a check, or one of its problems with its cure."""

    check: str
    state: CheckState
    text: str
    cure: str = ""


@dataclass(frozen=True, slots=True)
class Installation:
    """What could be read of an installation: None, or an entry of `reading.missing`, for what could not.

    `mutating` is empty, not None, where the API server offers no MutatingAdmissionPolicy. Times of Leases are those of
    the API. `notices` are events Preflight of nodes.
    """

    reading: ClusterReading
    nodes: Sequence[Node] | None = None
    workloads: Objects = None
    agents: Objects = None
    policies: Objects = None
    bindings: Objects = None
    mutating: Objects = None
    mutating_bindings: Objects = None
    has_mutating: bool = True
    leases: Objects = None
    node_leases: Objects = None
    notices: Objects = None
    missing: Mapping[str, str] = field(default_factory=dict)
    namespace: str = SYSTEM

    def inventories(self) -> Mapping[str, Inventory]:
        """The inventories that can be read, by node."""
        found = {}
        for node in self.nodes or ():
            try:
                inventory = node.shared()
            except AnnotationError:
                continue
            if inventory is not None:
                found[node.name] = inventory
        return found


Check = Callable[[Installation, float], Iterable[Finding]]


def findings(installed: Installation, now: float) -> list[Finding]:
    """The findings of all checks, in their order; `now` is the local time in seconds since 1970.

    A check without a problem has one finding that says so.
    """
    found: list[Finding] = []
    for name, check in CHECKS.items():
        told = list(check(installed, now))
        found += told or [Finding(name, CheckState.OK, _FINE[name])]
    return found


def _problem(check: str, text: str, cure: str) -> Finding:
    return Finding(check, CheckState.PROBLEM, text, cure)


def _unknown(installed: Installation, check: str, *lists: str) -> Iterator[Finding]:
    """A finding for each of `lists` that could not be read."""
    for name in lists:
        if name in installed.missing:
            yield Finding(check, CheckState.UNKNOWN, installed.missing[name])


def _services(installed: Installation, _now: float) -> Iterator[Finding]:
    """The Deployments and the DaemonSet run, all in one version."""
    yield from _unknown(installed, "services", "workloads")
    if installed.workloads is None:
        return
    where = f"kubectl -n {installed.namespace}"
    names = {_name(each) for each in installed.workloads}
    for name in ("vgpu-cluster", "vgpu-node"):
        if name not in names:
            yield _problem(
                "services",
                f"{name} is not installed",
                "use helm install, or kubectl apply -k: docs/install.md",
            )
    for each in installed.workloads:
        status = each.get("status") or {}
        wanted = status.get("desiredNumberScheduled", (each.get("spec") or {}).get("replicas", 1))
        ready = status.get("numberReady", status.get("readyReplicas", 0)) or 0
        if ready < wanted:
            yield _problem(
                "services", f"{_name(each)}: {ready} of {wanted} pods are Ready",
                f"see {where} get pods, and what /readyz of those that are not says: {where} describe pod",
            )  # fmt: skip
    versions: dict[str, set[str]] = {}
    for each in installed.workloads:
        for version in _versions(each):
            versions.setdefault(version, set()).add(_name(each))
    if len(versions) > 1:
        told = "; ".join(
            f"{version}: {', '.join(sorted(names))}" for version, names in sorted(versions.items())
        )
        yield _problem(
            "services", f"the services have different versions: {told}", "upgrade all: docs/operations.md"
        )


def _versions(workload: Object) -> Iterator[str]:
    """The tags of the images of a service of ours; an image named by its digest alone tells nothing.

    The kube-scheduler beside the allocator is another's, and agents with simulated cards have an image of their own.
    """
    template = (workload.get("spec") or {}).get("template") or {}
    for container in (template.get("spec") or {}).get("containers") or []:
        if container.get("name") in ("agent", "allocator", "engine"):
            _, _, tag = str(container.get("image")).partition("@")[0].rpartition("/")[2].partition(":")
            if tag:
                yield tag


def _admission(installed: Installation, _now: float) -> Iterator[Finding]:
    """Every policy is there, without errors in its expressions, and bound."""
    yield from _unknown(installed, "admission", "policies", "bindings", "mutating", "mutating_bindings")
    with_jobs = any(_name(each) == "vgpu-jobs" for each in installed.workloads or ())
    wanted = (*POLICIES, *(JOB_POLICIES if with_jobs else ()))
    yield from _policies(wanted, installed.policies, installed.bindings, warns=not installed.has_mutating)
    if installed.has_mutating:
        changing = (*MUTATING, *(JOB_MUTATING if with_jobs else ()))
        yield from _policies(changing, installed.mutating, installed.mutating_bindings)


def _policies(
    wanted: Iterable[str], policies: Objects, bindings: Objects, *, warns: bool = False
) -> Iterator[Finding]:
    there = {_name(each): each for each in policies or ()}
    bound = {str(each["spec"].get("policyName")): each["spec"] for each in bindings or ()}
    cure = "install the policies again: helm upgrade, or kubectl apply -k your overlay"
    for name in wanted:
        if policies is not None and name not in there:
            yield _problem("admission", f"policy {name} is missing", cure)
        elif bindings is not None and name not in bound:
            yield _problem("admission", f"policy {name} is not bound, so it does nothing", cure)
        elif "Deny" not in bound.get(name, {}).get("validationActions", ["Deny"]) and not (
            warns and name == WARNS
        ):
            yield _problem("admission", f"policy {name} refuses nothing: its binding has no Deny", cure)
        checked = ((there.get(name, {}).get("status") or {}).get("typeChecking") or {}).get(
            "expressionWarnings"
        )
        if checked:
            yield _problem(
                "admission", f"the API server finds errors in policy {name}: {checked[0].get('warning')}",
                "use a Kubernetes version that this version of vgpu supports: docs/install.md",
            )  # fmt: skip


def _agents(installed: Installation, _now: float) -> Iterator[Finding]:
    """Every node with cards has an agent that runs and serves; problems that agents posted are told."""
    yield from _unknown(installed, "agents", "nodes", "agents")
    running = {_node(each) for each in installed.agents or () if _is_ready(each)}
    logs = (
        f"see the log of its agent: kubectl -n {installed.namespace} logs -l app.kubernetes.io/component=node"
    )
    inventories = installed.inventories()
    silent = [name for name, inventory in inventories.items() if not inventory.serving]
    if silent:
        yield _problem("agents", f"not serving: {_few(silent)}; these nodes get no new slices", logs)
    if installed.agents is not None:
        stale = [name for name, inventory in inventories.items() if name not in running and inventory.serving]
        if stale:
            yield _problem(
                "agents", f"no agent is Ready on {_few(stale)}, so their inventories may be out of date",
                f"see why: kubectl -n {installed.namespace} get pods -o wide. Of a node that has no cards"
                " any more, remove the annotation vgpu.io/cards",
            )  # fmt: skip
        without = sorted(running - inventories.keys() - {""}) if installed.nodes is not None else []
        if without:
            yield _problem(
                "agents", f"no inventory of {_few(without)} can be read, though agents run there", logs
            )
    for node, text in _notices(installed, running):
        yield _problem(
            "agents", f"an event of {node} says: {text}",
            f"{logs}, which says it too (whoever may create events in namespace default can write one);"
            " docs/reference/events.md, Preflight",
        )  # fmt: skip


def _notices(installed: Installation, running: set[str]) -> Iterator[tuple[str, str]]:
    """The last Preflight event of each node with an agent that is not Ready now. Other names are in no true event."""
    agents = map(_node, installed.agents) if installed.agents is not None else installed.inventories()
    waiting = {*agents} - running
    last: dict[str, str] = {}
    for event in sorted(installed.notices or (), key=lambda each: str(each.get("lastTimestamp") or "")):
        node = str((event.get("involvedObject") or {}).get("name"))
        if node in waiting:
            last[node] = str(event.get("message"))[:MOST_TEXT]
    yield from sorted(last.items())


def _plugins(installed: Installation, _now: float) -> Iterator[Finding]:
    """What a kubelet counts of a resource is what the inventory says: else another plugin serves it."""
    yield from _unknown(installed, "plugins", "nodes")
    inventories = installed.inventories()
    for node in installed.nodes or ():
        inventory = inventories.get(node.name)
        cards = [card.family for card in inventory.cards] if inventory is not None else []
        for family in sorted(set(cards)):
            whole = resource_names(family)[0]
            counted = (node.capacity or {}).get(whole)
            if counted is not None and counted != str(cards.count(family)):
                yield _problem(
                    "plugins", f"{node.name}: the kubelet counts {counted} of {whole}, the inventory shows"
                    f" {cards.count(family)} cards",
                    "if another device plugin serves this resource there, remove one of them; else restart the agent",
                )  # fmt: skip
            elif counted is None and inventory is not None and inventory.serving:
                yield _problem(
                    "plugins", f"{node.name}: the kubelet does not know {whole}",
                    "see the agent's log; after a change of the kubelet's folder set kubeletDir",
                )  # fmt: skip


def _units(installed: Installation, _now: float) -> Iterator[Finding]:
    """One memory unit for all nodes of a family."""
    yield from _unknown(installed, "units", "nodes")
    for family, units in memory_units(installed.inventories()).items():
        if len(units) > 1:
            amounts = "; ".join(f"{unit} MiB on {_few(nodes)}" for unit, nodes in units.items())
            yield _problem(
                "units", f"one {resource_names(family)[1]} is {amounts}", "use one memUnitMiB on all nodes"
            )


def _faults(installed: Installation, _now: float) -> Iterator[Finding]:
    """Every inventory and grant can be read."""
    for missing in installed.reading.missing:
        yield Finding("annotations", CheckState.UNKNOWN, str(missing))
    faults = installed.reading.faults
    for fault in faults[:MOST_FAULTS]:
        yield _problem(
            "annotations", f"{fault.subject}: {fault.text}",
            "update all services to one version; of a pod, delete it: its grant is void",
        )  # fmt: skip
    if len(faults) > MOST_FAULTS:
        yield _problem(
            "annotations", f"{len(faults) - MOST_FAULTS} more that cannot be read", "see `vgpu cards -o json`"
        )


def _clock(installed: Installation, now: float) -> Iterator[Finding]:
    """The scheduler renews its Lease; no clock of a node is far from the local one."""
    yield from _unknown(installed, "clocks", "leases", "node_leases")
    if installed.leases is not None:
        yield from _leader(installed, now)
    off = {}
    for lease in installed.node_leases or ():
        age = now - seconds(str((lease.get("spec") or {}).get("renewTime") or ""), now)
        if age < -AHEAD_SECONDS or age > KUBELET_SECONDS:
            off[_name(lease)] = age
    if not off:
        return
    if len(off) == len(installed.node_leases or ()) > 1:
        yield _problem(
            "clocks", f"the Leases of all nodes were renewed {_ago(min(off.values(), key=abs))}",
            "set the clock of this machine; if it is right, see why no kubelet reaches the API server",
        )  # fmt: skip
        return
    ahead = [name for name, age in off.items() if age < 0]
    behind = [name for name, age in off.items() if age > 0]
    if ahead:
        yield _problem(
            "clocks", f"the clocks of {_few(ahead)} are ahead", "synchronise them, with chrony for instance"
        )
    if behind:
        yield _problem(
            "clocks", f"the kubelets of {_few(behind)} have not renewed their Leases for {KUBELET_SECONDS:g} s",
            "see whether the nodes are Ready; if they are, synchronise their clocks",
        )  # fmt: skip


def _leader(installed: Installation, now: float) -> Iterator[Finding]:
    pods = f"see the pods of vgpu-cluster: kubectl -n {installed.namespace} get pods"
    lease = next((each for each in installed.leases or () if _name(each) == SCHEDULER_LEASE), None)
    spec = (lease or {}).get("spec") or {}
    if not spec.get("holderIdentity"):
        yield _problem("clocks", "no replica of the cluster service leads, so no pod is placed", pods)
        return
    age = now - seconds(str(spec.get("renewTime") or ""), now)
    if age > LEASE_SECONDS or age < -AHEAD_SECONDS:
        yield _problem(
            "clocks", f"the Lease of the leading replica was renewed {_ago(age)}", f"{pods}; or set a clock"
        )


CHECKS: Mapping[str, Check] = {
    "services": _services, "admission": _admission, "agents": _agents, "plugins": _plugins, "units": _units,
    "annotations": _faults, "clocks": _clock,
}  # fmt: skip
_FINE = {
    "services": "all services run, in one version",
    "admission": "all policies are present and bound",
    "agents": "every node with cards has an agent that serves",
    "plugins": "every kubelet counts what the inventories show",
    "units": "each family has one memory unit",
    "annotations": "every inventory and grant can be read",
    "clocks": "a replica leads, and all Leases are fresh",
}


def _name(found: Object) -> str:
    return str(found["metadata"]["name"])


def _node(pod: Object) -> str:
    return str((pod.get("spec") or {}).get("nodeName") or "")


def _is_ready(pod: Object) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or []
    return any(each.get("type") == "Ready" and each.get("status") == "True" for each in conditions)


def _few(names: Sequence[str]) -> str:
    more = f" and {len(names) - NAMES} more" if len(names) > NAMES else ""
    return f"{', '.join(names[:NAMES])}{more}"


def _ago(age: float) -> str:
    return f"{age:.0f} s ago" if age >= 0 else f"{-age:.0f} s from now"
