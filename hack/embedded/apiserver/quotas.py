"""ResourceQuotas: limits on the number of pods in a namespace, and on their extended resources together.

Model: k8s.io/apiserver pkg/admission/plugin/resourcequota, and pkg/quota/v1/evaluator/core in k8s.io/kubernetes.
"""

from collections.abc import Iterable, Mapping
from fractions import Fraction

from hack.embedded.apiserver import errors, quantities
from hack.embedded.apiserver.strategies import Object, Strategy, keep
from hack.embedded.pod_requests import requested

PODS, REQUESTS = "pods", "requests."
Amounts = Mapping[str, Fraction]


class QuotaStrategy(Strategy):
    """The rules for writes of quotas. Their status is only for readers: the usage is counted again for each new pod."""

    def default(self, new: Object) -> None:
        """Raise StatusError 400 if the quota limits something other than pods and extended resources."""
        for key in new["spec"].get("hard") or {}:
            if key != PODS and not (key.startswith(REQUESTS) and "/" in key):
                raise errors.bad_request(
                    f"a quota of {key} is not served here: only {PODS} and {REQUESTS}DOMAIN/NAME"
                )

    def prepare_create(self, new: Object) -> None:
        """Remove the status, which only a controller writes."""
        new.pop("status", None)

    def prepare_update(self, new: Object, old: Object, subresource: str) -> None:
        """Restore the part that only the other route may write: the status, or the spec."""
        keep(new, old, "spec" if subresource else "status")


def status_of(quota: Object, pods: Iterable[Object]) -> Object:
    """The status of a quota, given all pods of its namespace."""
    holding = [_amounts(pod) for pod in pods if not _over(pod)]
    hard = quota["spec"].get("hard") or {}
    used = {key: sum((amounts.get(key, Fraction()) for amounts in holding), Fraction()) for key in hard}
    return {"hard": hard, "used": {key: quantities.canonical(str(amount)) for key, amount in used.items()}}


def check(new: Object, pods: Iterable[Object], quotas: Iterable[Object]) -> None:
    """Raise StatusError 403 if the pod `new`, together with the `pods` of its namespace, exceeds a quota."""
    asked, holding = _amounts(new), [_amounts(pod) for pod in pods if not _over(pod)]
    for quota in quotas:
        limits = {key: quantities.parse(text) or Fraction() for key, text in quota["spec"]["hard"].items()}
        used = {key: sum((amounts.get(key, Fraction()) for amounts in holding), Fraction()) for key in limits}
        beyond = [key for key in sorted(limits) if asked.get(key) and used[key] + asked[key] > limits[key]]
        if beyond:
            parts = (("requested", asked), ("used", used), ("limited", limits))
            text = ", ".join(f"{word}: {_shown(amounts, beyond)}" for word, amounts in parts)
            name = new["metadata"]["name"]
            message = f'pods "{name}" is forbidden: exceeded quota: {quota["metadata"]["name"]}, {text}'
            raise errors.StatusError(403, "Forbidden", message, {"name": name, "kind": "pods"})


def _amounts(pod: Object) -> Amounts:
    extended = {f"{REQUESTS}{name}": amount for name, amount in requested(pod).items() if "/" in name}
    return {**extended, PODS: Fraction(1)}


def _over(pod: Object) -> bool:
    return pod["status"].get("phase") in ("Succeeded", "Failed")


def _shown(amounts: Amounts, keys: Iterable[str]) -> str:
    return ",".join(f"{key}={amounts[key]}" for key in keys)
