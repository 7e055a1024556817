"""Finds the replica of a service that leads: the holder of the service's Lease is named after the replica's pod."""

from collections.abc import Callable
from typing import NamedTuple

from device_plugin.adapters.kube.client import KubeClient
from device_plugin.cli.access.port_forward import ForwardError, PodPort, forbidden
from device_plugin.kube.api import Ref
from device_plugin.kube.errors import ForbiddenError
from device_plugin.kube.leases import LEASES


class LedService(NamedTuple):
    """A service whose leader holds the Lease `lease`, and the port at which its pods answer.

    `name` is for messages, such as `the allocator`. `component` is the label app.kubernetes.io/component of its pods.
    `role` is the Role that gives the right to ask, with the page of the documentation that describes it.
    """

    name: str
    namespace: str
    component: str
    lease: Ref
    port: int
    role: str


def leader(client: KubeClient, service: LedService, pod_of: Callable[[str], str] = str) -> PodPort:
    """Returns the port of the service's leading replica.

    `pod_of` returns the name of the pod that the Lease's holder stands for; empty if there is no such pod. Raises
    GoneError if there is no Lease, ForwardError if no replica leads or the caller may not ask, and ApiError.
    """
    try:
        pod = pod_of(client.get(LEASES, service.lease).holder)
    except ForbiddenError as error:
        raise forbidden(error, service.role) from error
    if not pod:
        raise ForwardError(
            f"no replica of {service.name} leads now: see `kubectl -n {service.namespace} get pods -l"
            f" app.kubernetes.io/component={service.component}`"
        )
    return PodPort(service.name, service.namespace, pod, service.port, service.role)
