"""Checks the serving of ResourceClaims: Kubernetes' releases, device classes, ResourceSlices, and the agents."""

from collections.abc import Iterator

from device_plugin.cli.check.installation import Finding, Installation, few, name_of, problem, unknown
from device_plugin.core import pages
from device_plugin.core.contract.claims import GROUP, VERSION, device_class, is_ours
from device_plugin.core.versions import minor_version
from device_plugin.kube.api import AGENT_LABELS

NAME = "claims"
# The first release of Kubernetes that has consumable capacity on by default (KEP-5075).
LEAST = (1, 36)
_OFF = "or leave the component dra out (Helm: dra.enabled=false)"


def claims(installed: Installation) -> Iterator[Finding]:
    """Checks that API server, kubelets and agents serve ResourceClaims for every card family of the installation."""
    yield from unknown(installed, NAME, "server", "nodes", "workloads", "classes", "resource_slices")
    yield from _releases(installed)
    yield from _classes(installed)
    yield from _capacity(installed)
    yield from _agents(installed)


def _releases(installed: Installation) -> Iterator[Finding]:
    cure = f"upgrade Kubernetes, {_OFF}: {pages.INSTALL}"
    server = minor_version(installed.server)
    if server is not None and server < LEAST:
        yield problem(
            NAME, f"the API server is {installed.server}, and ResourceClaims need Kubernetes 1.36: consumable"
            " capacity is off there", cure,
        )  # fmt: skip
    old = [
        f"{node.name} ({node.kubelet})"
        for node in installed.nodes or ()
        if node.inventory and (kubelet := minor_version(node.kubelet)) and kubelet < LEAST
    ]
    if old:
        yield problem(NAME, f"ResourceClaims need kubelets of Kubernetes 1.36: {few(old)}", cure)


def _classes(installed: Installation) -> Iterator[Finding]:
    """Checks that each card family has a DeviceClass."""
    if installed.classes is None:
        return
    there = {name_of(each) for each in installed.classes}
    if missing := sorted({device_class(prefix) for prefix in installed.prefixes()} - there):
        yield problem(
            NAME, f"there is no DeviceClass {few(missing)}, so no claim can name it",
            f"install it: Helm makes one for each family; with kustomize see {pages.INSTALL}",
        )  # fmt: skip


def _capacity(installed: Installation) -> Iterator[Finding]:
    """Checks that the API server keeps the field of a card which says that several claims may share it.

    An API server whose feature gate DRAConsumableCapacity is off drops the field.
    """
    shown = {
        str(spec.get("nodeName") or name_of(each))
        for each in installed.resource_slices or ()
        if is_ours(str((spec := each.get("spec") or {}).get("driver")))
        and not all(device.get("allowMultipleAllocations") for device in spec.get("devices") or ())
    }
    if shown:
        yield problem(
            NAME, f"the ResourceSlices of {few(sorted(shown))} do not say that claims share cards: the API server"
            f" keeps no consumable capacity of {GROUP}/{VERSION}",
            "switch its feature gate DRAConsumableCapacity on, as Kubernetes 1.36 has it by default",
        )  # fmt: skip


def _agents(installed: Installation) -> Iterator[Finding]:
    """Checks that each agent that serves cards has registered with its kubelet as a driver."""
    silent = [
        name
        for name, inventory in installed.inventories().items()
        if inventory.cards and inventory.serving and not inventory.claims
    ]
    if silent:
        yield problem(
            NAME, f"the agents of {few(silent)} are not registered with their kubelets as drivers, so claims get no"
            " slice there",
            f"see their logs: kubectl -n {installed.namespace} logs -l '{AGENT_LABELS}'; their setting claims must be"
            " on",
        )  # fmt: skip
