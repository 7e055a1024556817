"""Asks the API server whether it would accept a pod: admission policies, webhooks and quotas; nothing is stored."""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, NamedTuple

from device_plugin.adapters.kube.client import KubeClient
from device_plugin.kube.api import PODS
from device_plugin.kube.errors import ApiError, ForbiddenError, RefusedError

# Keys of a template's metadata that its pods have.
_KEPT = ("labels", "annotations")
# The API server requires the UID of an owner, but does not check it in a dry run.
_NO_UID = "00000000-0000-0000-0000-000000000000"


class DryAnswer(NamedTuple):
    """The API server's answer to a dry run that creates a pod; both texts are empty if it accepts the pod.

    `refused` is the reason why it refuses the pod. `untried` is the reason why it does not say whether it would.
    """

    refused: str = ""
    untried: str = ""


def tried(client: KubeClient, body: Mapping[str, Any], namespace: str, owner: Mapping[str, str]) -> DryAnswer:
    """Returns the API server's answer to a dry run that creates a pod from the pod template `body`.

    `owner` is the controller that makes the pod; empty if none does. A policy may refuse pods without a controller.
    """
    metadata = {key: text for key, text in (body.get("metadata") or {}).items() if key in _KEPT}
    if owner:
        metadata["ownerReferences"] = [{**owner, "uid": _NO_UID, "controller": True}]
    pod = {
        "apiVersion": "v1", "kind": "Pod", "spec": body["spec"],
        "metadata": {"generateName": "fit-", "namespace": namespace, **metadata},
    }  # fmt: skip
    try:
        client.create(PODS.json, pod, namespace, dry=True)
    except RefusedError as error:
        said = error.status == HTTPStatus.UNPROCESSABLE_ENTITY or _is_admission(error)
        return DryAnswer(refused=str(error)) if said else DryAnswer(untried=str(error))
    except ApiError as error:
        return DryAnswer(untried=str(error))
    return DryAnswer()


def _is_admission(error: RefusedError) -> bool:
    """True for a 403 answer from admission or a quota, False for any other error.

    RBAC's 403 names no pod: `pods is forbidden: User "jane" cannot create`.
    """
    return isinstance(error, ForbiddenError) and not str(error).startswith("pods is forbidden: ")
