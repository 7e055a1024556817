"""The ResourceClaim controller's threads: two watches find pods and claims that need work, and a worker does it."""

import logging
import threading
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

from device_plugin.adapters.kube.client import KubeClient
from device_plugin.adapters.kube.endpoint import Endpoint
from device_plugin.adapters.kube.watch import ListWatch
from device_plugin.kube.api import PODS, Change, Kind, Ref
from device_plugin.kube.errors import ApiError, ConflictError, GoneError
from hack.embedded.claims.freeing import free, reserve
from hack.embedded.claims.uses import (
    CLAIMS,
    ENTRY,
    TEMPLATES,
    Object,
    entries,
    needed,
    new_claim,
    owner,
    used,
)
from hack.embedded.pod_spec import deleting, ref, uid
from hack.embedded.work_queue import WorkQueue

log = logging.getLogger(__name__)

USER = "system:serviceaccount:kube-system:resource-claim-controller"
# Seconds until work is repeated: after a lost race, and after a refusal or without the template.
SOON, RETRY = 0.02, 0.5


class _Work(NamedTuple):
    """A pod or a ResourceClaim that needs work."""

    kind: Kind[Object]
    namespace: str
    name: str


class ClaimController:
    """Serves the ResourceClaims of an API server from `start` to `stop`; `token` is its user's bearer token."""

    def __init__(self, api_url: str, token: str = USER) -> None:
        self._api = KubeClient(Endpoint(api_url, lambda: f"Bearer {token}"), "claim-controller", timeout=10.0)
        self._queue: WorkQueue[_Work] = WorkQueue()
        self._stop = threading.Event()
        self._lock = threading.Lock()
        # Pods with claims by UID; by claim, the UIDs of its pods; by the UID of a pod, its claims made from templates.
        self._pods: dict[str, Object] = {}
        self._users: defaultdict[_Work, set[str]] = defaultdict(set)
        self._made: defaultdict[str, dict[str, str]] = defaultdict(dict)
        watches = [ListWatch(self._api, PODS.json), ListWatch(self._api, CLAIMS)]
        self._watches: list[ListWatch[Object]] = watches
        runs: Mapping[str, Callable[[], None]] = {
            "pods": lambda: watches[0].run(self._on_pods, self._on_pod, self._stop),
            "claims": lambda: watches[1].run(self._on_claims, self._on_claim, self._stop),
            "work": self._run,
        }
        self._threads = [
            threading.Thread(target=run, name=f"claim-{what}", daemon=True) for what, run in runs.items()
        ]

    def start(self) -> None:
        """Start all threads."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Stop all threads; work that has begun is completed."""
        self._stop.set()
        self._queue.close()
        for watch in self._watches:
            watch.interrupt()
        for thread in self._threads:
            thread.join()
        self._api.close()

    def _on_pods(self, pods: Sequence[Object]) -> None:
        listed = {uid(pod) for pod in pods}
        for pod in [each for key, each in self._pods.items() if key not in listed]:
            self._on_pod(Change.DELETED, pod)
        for pod in pods:
            self._on_pod(Change.ADDED, pod)

    def _on_pod(self, change: Change, pod: Object) -> None:
        if not entries(pod):
            return
        gone, key = change is Change.DELETED, uid(pod)
        with self._lock:
            claims = self._claims(pod)
            if gone:
                self._forget(key, claims)
            else:
                self._pods[key] = pod
                for claim in claims:
                    self._users[claim].add(key)
        if gone or not needed(pod):
            for claim in claims:
                self._queue.ask(claim)
        else:
            self._queue.ask(_work(PODS.json, pod))

    def _forget(self, key: str, claims: set[_Work]) -> None:
        """Forget the pod of this UID, which uses these ResourceClaims."""
        self._pods.pop(key, None)
        self._made.pop(key, None)
        for claim in claims:
            self._users[claim].discard(key)
            if not self._users[claim]:
                del self._users[claim]

    def _claims(self, pod: Object) -> set[_Work]:
        """The ResourceClaims that the pod uses, also those that its status does not name yet."""
        names = {*used(pod).values(), *self._made.get(uid(pod), {}).values()}
        return {_Work(CLAIMS, pod["metadata"]["namespace"], name) for name in names if name}

    def _on_claims(self, claims: Sequence[Object]) -> None:
        for claim in claims:
            self._on_claim(Change.ADDED, claim)

    def _on_claim(self, change: Change, claim: Object) -> None:
        work = _work(CLAIMS, claim)
        self._note(claim)
        with self._lock:
            users = [self._pods[key] for key in self._users.get(work, ()) if key in self._pods]
        if change is not Change.DELETED:
            self._queue.ask(work)
        for pod in users:
            self._queue.ask(_work(PODS.json, pod))

    def _note(self, claim: Object) -> None:
        """Remember for which pod, and which entry of its resourceClaims, a ResourceClaim was made."""
        pod = owner(claim).get("uid")
        entry = (claim["metadata"].get("annotations") or {}).get(ENTRY)
        if pod and entry:
            with self._lock:
                self._made[pod].setdefault(entry, claim["metadata"]["name"])

    def _run(self) -> None:
        while (work := self._queue.take()) is not None:
            try:
                found = self._api.get(work.kind, Ref(work.name, work.namespace))
                if work.kind is CLAIMS:
                    free(self._api, found, self._pod)
                elif needed(found) and not deleting(found):
                    self._serve(found)
            except GoneError:
                continue  # its deletion is seen by a watch
            except ConflictError:
                self._queue.ask(work, SOON)
            except ApiError as error:
                log.info("%s %s/%s: %s; trying again", work.kind.name, work.namespace, work.name, error)
                self._queue.ask(work, RETRY)

    def _pod(self, namespace: str, name: str) -> Object | None:
        try:
            return self._api.get(PODS.json, Ref(name, namespace))
        except GoneError:
            return None

    def _serve(self, pod: Object) -> None:
        """Make the pod's ResourceClaims; when it has a node, reserve for it those that have been given devices."""
        missing = [each for each in entries(pod) if not used(pod)[each["name"]]]
        made = {}
        for each in missing:
            name = self._make(pod, each["name"], each["resourceClaimTemplateName"])
            if not name:
                self._queue.ask(_work(PODS.json, pod), RETRY)
                return
            made[each["name"]] = name
        if made:
            listed = [
                {"name": entry, "resourceClaimName": name} for entry, name in {**used(pod), **made}.items()
            ]
            change = {"status": {"resourceClaimStatuses": listed}}
            self._api.patch(PODS.json, ref(pod), change, subresource="status")
        elif pod["spec"].get("nodeName"):
            for name in used(pod).values():
                with suppress(GoneError):
                    reserve(self._api, pod, name)

    def _make(self, pod: Object, entry: str, template: str) -> str:
        """The name of the ResourceClaim for this entry of the pod; empty after a failure.

        It is made unless it was made before.
        """
        if found := self._made.get(uid(pod), {}).get(entry, ""):
            return found
        namespace = pod["metadata"]["namespace"]
        try:
            written = self._api.get(TEMPLATES, Ref(template, namespace))
        except GoneError:
            missing = f'{TEMPLATES.name.lower()}.{TEMPLATES.group} "{template}" not found'
            self._failed(pod, entry, f'resource claim template "{template}": {missing}')
            return ""
        try:
            made = self._api.create(CLAIMS, new_claim(pod, entry, written), namespace)
        except ApiError as error:
            self._failed(pod, entry, f"create ResourceClaim : {error}")
            return ""
        self._note(made)
        return str(made["metadata"]["name"])

    def _failed(self, pod: Object, entry: str, why: str) -> None:
        with suppress(ApiError):
            message = f"PodResourceClaim {entry}: {why}"
            self._api.post_event(PODS, ref(pod), "FailedResourceClaimCreation", message)


def _work(kind: Kind[Object], found: Object) -> _Work:
    return _Work(kind, found["metadata"]["namespace"], found["metadata"]["name"])
