"""Checks an installation from lists that were read: finds problems, each with its cure."""

from collections.abc import Callable, Iterable, Iterator, Mapping

from device_plugin.cli.check import claim_checks, node_checks
from device_plugin.cli.check.installation import (
    NODE_AGENTS,
    CheckState,
    Finding,
    Installation,
    Objects,
    allocator_of,
    containers,
    few,
    name_of,
    problem,
    unknown,
)
from device_plugin.cli.reading.allocator_deployment import DEPLOYMENT
from device_plugin.core import pages
from device_plugin.core.timestamps import seconds
from device_plugin.core.versions import LEAST_KUBERNETES, minor_version
from device_plugin.kube.api import Object

# The admission policies of manifests/admission, and the policies of the components jobs and dra.
POLICIES = (
    "vgpu-cdi-annotations", "vgpu-confinement", "vgpu-deletions", "vgpu-ends", "vgpu-evictions", "vgpu-grace",
    "vgpu-grants", "vgpu-idle-limit", "vgpu-inventories", "vgpu-isolation", "vgpu-job-resizes", "vgpu-names",
    "vgpu-opted-out", "vgpu-quota", "vgpu-requests", "vgpu-selectors", "vgpu-touches",
)  # fmt: skip
JOB_POLICIES = (
    "vgpu-job-checkpoint-requests", "vgpu-job-checkpoints", "vgpu-job-engine", "vgpu-job-pasts", "vgpu-job-queues",
    "vgpu-job-starts", "vgpu-job-widths", "vgpu-jobs", "vgpu-kind-engine", "vgpu-kind-queues", "vgpu-kind-records",
    "vgpu-kind-starts", "vgpu-kind-widths", "vgpu-kinds", "vgpu-queue-of-others", "vgpu-queue-required-jobs",
    "vgpu-queue-required-kinds", "vgpu-queue-required-pods",
)  # fmt: skip
CLAIM_POLICIES = (
    "vgpu-claim-allocations", "vgpu-claims", "vgpu-class-limits", "vgpu-job-claims", "vgpu-queue-required-claims",
    "vgpu-resource-slices",
)  # fmt: skip
MUTATING = ("vgpu-confinement-defaults", "vgpu-idle-default", "vgpu-scheduler-name")
CLAIM_MUTATING = ("vgpu-claim-finalizer",)
JOB_MUTATING = ("vgpu-job-suspension", "vgpu-kind-suspension")
# It warns about queue labels that have no effect, and refuses nothing.
WARNING = "vgpu-queue-of-others"
# In a cluster without mutating policies this policy only warns, as its overlay has it.
WARNS = "vgpu-confinement"
# Where another plugin serves a name like ours, manifests/components/similar-names removes this policy and its binding.
OPTIONAL = "vgpu-names"
# Ages at which Leases are too old: the scheduler renews its Lease every 2 s, a kubelet the Lease of its node every 10.
LEASE_SECONDS, KUBELET_SECONDS = 15.0, 40.0
# Words that are in each refusal by Pod Security, and most characters of a refusal that are shown.
POD_SECURITY, MOST_REFUSAL = "violates PodSecurity", 500
# Seconds that a clock may be ahead.
AHEAD_SECONDS = 5.0
# The time of renewal of a Lease that was never renewed.
NEVER = float("-inf")
# Most unreadable annotations that are named: tenants can write many.
MOST_FAULTS = 20
Check = Callable[[Installation], Iterable[Finding]]


def findings(installed: Installation) -> list[Finding]:
    """Returns the findings of all checks, check after check.

    The check of ResourceClaims runs only if the cluster service serves them. If a check finds no problem, its first
    finding says that all is well; remarks of the check may follow.
    """
    found: list[Finding] = []
    for name, check in CHECKS.items():
        if name == claim_checks.NAME and not installed.claims():
            continue
        told = list(check(installed))
        if all(each.state is CheckState.OK for each in told):
            found.append(Finding(name, CheckState.OK, _FINE[name]))
        found += told
    return found


def _services(installed: Installation) -> Iterator[Finding]:
    """Checks that the Deployments and the DaemonSets run, all in one version."""
    yield from unknown(installed, "services", "workloads")
    if installed.workloads is None:
        return
    names = {name_of(each) for each in installed.workloads}
    for name in (DEPLOYMENT, *NODE_AGENTS):
        if name not in names:
            yield problem(
                "services",
                f"{name} is not installed",
                f"use helm install, or kubectl apply -k: {pages.INSTALL}",
            )
    for each in installed.workloads:
        yield from _pods_ready(installed, each)
    versions: dict[str, set[str]] = {}
    for each in installed.workloads:
        for version in _versions(each):
            versions.setdefault(version, set()).add(name_of(each))
    if len(versions) > 1:
        told = "; ".join(
            f"{version}: {', '.join(sorted(names))}" for version, names in sorted(versions.items())
        )
        yield problem(
            "services", f"the services have different versions: {told}", f"upgrade all: {pages.OPERATIONS}"
        )


def _pods_ready(installed: Installation, workload: Object) -> Iterator[Finding]:
    """Checks that all pods of a Deployment or DaemonSet exist and are Ready."""
    where = f"kubectl -n {installed.namespace}"
    status = workload.get("status") or {}
    replicas = (workload.get("spec") or {}).get("replicas", 1)
    wanted = status.get("desiredNumberScheduled", replicas)
    ready = status.get("numberReady", status.get("readyReplicas", 0)) or 0
    refusal = _last_refusal(installed, workload)
    if POD_SECURITY in refusal:
        yield problem(
            "services", f"the pods of {name_of(workload)} are refused: {refusal}",
            f"kubectl label --overwrite namespace {installed.namespace}"
            " pod-security.kubernetes.io/enforce=privileged",
        )  # fmt: skip
    elif refusal:
        yield problem(
            "services", f"no pod of {name_of(workload)} can be made: {refusal}",
            f"see the quotas, webhooks and policies of namespace {installed.namespace}",
        )  # fmt: skip
    elif replicas == 0:
        yield problem(
            "services", f"{name_of(workload)} has 0 replicas, so it does nothing",
            f"{where} scale deployment {name_of(workload)} --replicas=2",
        )  # fmt: skip
    elif ready < wanted:
        yield problem(
            "services", f"{name_of(workload)}: {ready} of {wanted} pods are Ready",
            f"see {where} get pods, and describe pod. One that runs says why: {where} port-forward POD PORT, then curl"
            f" http://127.0.0.1:PORT/readyz (ports: {pages.OPERATIONS})",
        )  # fmt: skip


def _last_refusal(installed: Installation, workload: Object) -> str:
    """Returns the reason why pods of a DaemonSet are not created; empty if all exist or no event has the reason."""
    status = workload.get("status") or {}
    if (status.get("currentNumberScheduled") or 0) >= (status.get("desiredNumberScheduled") or 0):
        return ""
    wanted = ("DaemonSet", name_of(workload))
    said = [event for event in installed.refusals or () if _about(event) == wanted]
    last = max(said, key=lambda each: str(each.get("lastTimestamp") or ""), default={})
    return str(last.get("message") or "")[:MOST_REFUSAL]


def _about(event: Object) -> tuple[str, str]:
    """Returns kind and name of the object of an event."""
    of = event.get("involvedObject") or {}
    return str(of.get("kind")), str(of.get("name"))


def _versions(workload: Object) -> Iterator[str]:
    """Yields the image tag of each container of the workload that runs one of our services.

    Other containers, such as kube-scheduler in the allocator's pod, have images with versions of their own.
    """
    for container in containers(workload):
        if container.get("name") in ("agent", "allocator", "engine") and (tag := _tag(container)):
            yield tag


def _tag(container: Object) -> str:
    """Returns the tag of a container's image; empty for an image named by its digest alone."""
    return str(container.get("image")).partition("@")[0].rpartition("/")[2].partition(":")[2]


def _kubernetes(installed: Installation) -> Iterator[Finding]:
    """Checks that API server and kubelets are supported, and that kube-scheduler is not newer than the API server."""
    yield from unknown(installed, "versions", "server", "nodes", "workloads")
    least = "v" + ".".join(map(str, LEAST_KUBERNETES))
    upgrade = f"upgrade to Kubernetes {least} or newer: {pages.INSTALL}"
    server = minor_version(installed.server)
    if server is not None and server < LEAST_KUBERNETES:
        yield problem("versions", f"the API server is {installed.server}, older than {least}", upgrade)
    old = [
        f"{node.name} ({node.kubelet})"
        for node in installed.nodes or ()
        if node.inventory and (kubelet := minor_version(node.kubelet)) and kubelet < LEAST_KUBERNETES
    ]
    if old:
        yield problem("versions", f"kubelets are older than {least}: {few(old)}", upgrade)
    cluster = installed.workload(DEPLOYMENT)
    for container in containers(cluster) if cluster is not None else ():
        tag = _tag(container)
        scheduler = minor_version(tag) if container.get("name") == "scheduler" else None
        if server is not None and scheduler is not None and scheduler > server:
            yield problem(
                "versions", f"kube-scheduler is {tag}, newer than the API server ({installed.server})",
                f"set the image of the container scheduler of {DEPLOYMENT} to that version: {pages.INSTALL}",
            )  # fmt: skip


def _admission(installed: Installation) -> Iterator[Finding]:
    """Checks that every policy exists, is bound, and has no errors in its expressions."""
    yield from unknown(
        installed, "admission", "policies", "bindings", "mutating", "mutating_bindings", "workloads"
    )
    with_jobs = any(name_of(each) == "vgpu-jobs" for each in installed.workloads or ())
    wanted = (
        *POLICIES, *(JOB_POLICIES if with_jobs else ()), *(CLAIM_POLICIES if installed.claims() else ()),
    )  # fmt: skip
    if not _is_there(OPTIONAL, installed.policies) and not _is_bound(OPTIONAL, installed.bindings):
        wanted = tuple(name for name in wanted if name != OPTIONAL)
        yield Finding(
            "admission", CheckState.OK, f"{OPTIONAL} is left out: misspelt resources are not refused"
        )
    yield from _policies(wanted, installed.policies, installed.bindings, warns=not installed.has_mutating)
    if installed.has_mutating:
        changing = (
            *MUTATING, *(JOB_MUTATING if with_jobs else ()), *(CLAIM_MUTATING if installed.claims() else ()),
        )  # fmt: skip
        yield from _policies(changing, installed.mutating, installed.mutating_bindings)


def _is_there(name: str, listed: Objects) -> bool:
    """True if the list has an object of this name, or could not be read."""
    return listed is None or any(name_of(each) == name for each in listed)


def _is_bound(name: str, bindings: Objects) -> bool:
    return bindings is None or any(_spec(each).get("policyName") == name for each in bindings)


def _spec(binding: Object) -> Object:
    return binding.get("spec") or {}


def _policies(
    wanted: Iterable[str], policies: Objects, bindings: Objects, *, warns: bool = False
) -> Iterator[Finding]:
    there = {name_of(each): each for each in policies or ()}
    bound: dict[str, list[Object]] = {}
    for each in bindings or ():
        bound.setdefault(str(_spec(each).get("policyName")), []).append(_spec(each))
    cure = "install the policies again: helm upgrade, or kubectl apply -k your overlay"
    for name in wanted:
        may_warn = name == WARNING or (warns and name == WARNS)
        refusing = [
            spec
            for spec in bound.get(name, ())
            if may_warn or "Deny" in spec.get("validationActions", ["Deny"])
        ]
        if policies is not None and name not in there:
            yield problem("admission", f"policy {name} is missing", cure)
        elif bindings is not None and name not in bound:
            yield problem("admission", f"policy {name} is not bound, so it does nothing", cure)
        elif bindings is not None and not refusing:
            yield problem("admission", f"policy {name} refuses nothing: its binding has no Deny", cure)
        elif bindings is not None and all(map(_is_narrowed, refusing)):
            yield problem(
                "admission", f"policy {name} holds for some objects only: its binding has matchResources",
                "remove matchResources from the binding",
            )  # fmt: skip
        checked = ((there.get(name, {}).get("status") or {}).get("typeChecking") or {}).get(
            "expressionWarnings"
        )
        if checked:
            yield problem(
                "admission", f"the API server finds errors in policy {name}: {checked[0].get('warning')}",
                f"use a Kubernetes version that this version of vgpu supports: {pages.INSTALL}",
            )  # fmt: skip


def _is_narrowed(binding: Object) -> bool:
    """True if this spec of a policy binding leaves out a part of the objects that the admission policy is for."""
    selected = binding.get("matchResources") or {}
    return any(value for key, value in selected.items() if key != "matchPolicy")


def _faults(installed: Installation) -> Iterator[Finding]:
    """Checks that every inventory and grant can be read."""
    for missing in installed.reading.missing:
        yield Finding("annotations", CheckState.UNKNOWN, str(missing))
    faults = installed.reading.faults
    for fault in faults[:MOST_FAULTS]:
        yield problem(
            "annotations", f"{fault.subject}: {fault.text}",
            "update all services to one version; of a pod, delete it: its grant is void",
        )  # fmt: skip
    if len(faults) > MOST_FAULTS:
        yield problem(
            "annotations", f"{len(faults) - MOST_FAULTS} more that cannot be read", "see `vgpu cards -o json`"
        )


def _clock(installed: Installation) -> Iterator[Finding]:
    """Checks that the cluster service's leader renews its Lease, and that no node's clock is far from the local one."""
    yield from unknown(installed, "clocks", "leases", "node_leases", "workloads")
    if installed.leases is not None and installed.workloads is not None:
        yield from _leader(installed)
    off: dict[str, float] = {}
    undated: list[str] = []
    for lease in installed.node_leases or ():
        age = _age(lease, installed.node_leases_at)
        if age is None:
            undated.append(name_of(lease))
        elif age < -AHEAD_SECONDS or age > KUBELET_SECONDS:
            off[name_of(lease)] = age
    if undated:
        yield Finding("clocks", CheckState.UNKNOWN, f"no time of renewal is in the Leases of {few(undated)}")
    if not off:
        return
    if len(off) == len(installed.node_leases or ()) > 1:
        yield problem(
            "clocks", f"the Leases of all nodes were renewed {_ago(min(off.values(), key=abs))}",
            "set the clock of this machine; if it is right, see why no kubelet reaches the API server",
        )  # fmt: skip
        return
    ahead = [name for name, age in off.items() if age < 0]
    behind = [name for name, age in off.items() if age > 0]
    if ahead:
        yield problem(
            "clocks", f"the clocks of {few(ahead)} are ahead", "synchronise them, with chrony for instance"
        )
    if behind:
        yield problem(
            "clocks", f"the kubelets of {few(behind)} have not renewed their Leases for {KUBELET_SECONDS:g} s",
            "see whether the nodes are Ready; if they are, synchronise their clocks",
        )  # fmt: skip


def _leader(installed: Installation) -> Iterator[Finding]:
    """Checks that a replica of the cluster service leads and renews its Lease."""
    service = allocator_of(installed.workloads, installed.namespace)
    pods = f"see the pods of vgpu-cluster: kubectl -n {installed.namespace} get pods"
    lease = next((each for each in installed.leases or () if name_of(each) == service.lease.name), None)
    spec = (lease or {}).get("spec") or {}
    if not spec.get("holderIdentity"):
        yield problem("clocks", "no replica of the cluster service leads, so no pod is placed", pods)
        return
    age = _age(lease or {}, installed.leases_at)
    if age is None:
        yield Finding(
            "clocks", CheckState.UNKNOWN, "no time of renewal is in the Lease of the leading replica"
        )
    elif age > LEASE_SECONDS or age < -AHEAD_SECONDS:
        yield problem(
            "clocks", f"the Lease of the leading replica was renewed {_ago(age)}", f"{pods}; or set a clock"
        )
    if service.by_node:
        yield from _beside_scheduler(installed, str(spec["holderIdentity"]).partition("_")[0])


def _beside_scheduler(installed: Installation, machine: str) -> Iterator[Finding]:
    """Checks that a replica of the cluster service is Ready on `machine`, where the leading kube-scheduler runs."""
    yield from unknown(installed, "clocks", "replicas")
    ready = filter(node_checks.is_ready, installed.replicas or ())
    if installed.replicas is not None and machine not in map(node_checks.node_of, ready):
        yield problem(
            "clocks",
            f"the kube-scheduler of {machine} leads, and no pod of {DEPLOYMENT} is Ready there: no pod is placed",
            f"run one on every control-plane node ({pages.INSTALL}), and see that it is Ready: kubectl -n"
            f" {installed.namespace} get pods -o wide",
        )  # fmt: skip


def _age(lease: Object, read_at: float) -> float | None:
    """Returns the seconds from the renewal of a Lease until the Lease was read; None without a time of renewal."""
    renewed = seconds(str((lease.get("spec") or {}).get("renewTime") or ""), NEVER)
    return None if renewed == NEVER else read_at - renewed


CHECKS: Mapping[str, Check] = {
    "services": _services, "versions": _kubernetes, "admission": _admission, "agents": node_checks.agents,
    "cards": node_checks.cards, "plugins": node_checks.plugins, "units": node_checks.units, "annotations": _faults,
    "clocks": _clock, claim_checks.NAME: claim_checks.claims,
}  # fmt: skip
_FINE = {
    "services": "all services run, in one version",
    "versions": "API server, kubelets and kube-scheduler have supported versions",
    "admission": "all policies are present and bound",
    "agents": "every node with cards has an agent that serves",
    "cards": "all cards are healthy",
    "plugins": "every kubelet counts what the inventories show",
    "units": "each family has one memory unit",
    "annotations": "every inventory and grant can be read",
    "clocks": "a replica leads, and all Leases are fresh",
    claim_checks.NAME: "ResourceClaims are served on every node with cards",
}


def _ago(age: float) -> str:
    return f"{age:.0f} s ago" if age >= 0 else f"{-age:.0f} s from now"
