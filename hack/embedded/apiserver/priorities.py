"""PriorityClasses: the priority that a pod gets by the name of its class (admission plugin Priority).

Unlike in Kubernetes, a pod may also give a priority without a class, so that tests need no class.
"""

from collections.abc import Iterable

from hack.embedded.apiserver import errors
from hack.embedded.apiserver.strategies import Object

_SYSTEM = {
    name: {"metadata": {"name": name}, "value": value}
    for name, value in (("system-cluster-critical", 2_000_000_000), ("system-node-critical", 2_000_001_000))
}
"""The PriorityClasses that exist in every cluster."""


def resolve(pod: Object, classes: Iterable[Object]) -> None:
    """Set the priority and preemption policy of a new pod. Raises StatusError 403 if there is no such class."""
    spec, known = pod["spec"], _SYSTEM | {found["metadata"]["name"]: found for found in classes}
    default = next((found for found in known.values() if found.get("globalDefault")), None)
    name = spec.get("priorityClassName", "")
    chosen = known.get(name) if name else default
    if chosen is None and name:
        pod_name = pod["metadata"]["name"]
        message = f'pods "{pod_name}" is forbidden: no PriorityClass with name {name} was found'
        raise errors.StatusError(403, "Forbidden", message, {"name": pod_name, "kind": "pods"})
    if chosen is not None:
        spec["priorityClassName"] = chosen["metadata"]["name"]
        spec["priority"] = chosen["value"]
        spec["preemptionPolicy"] = chosen.get("preemptionPolicy", "PreemptLowerPriority")
