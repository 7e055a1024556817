"""The pods that ask for slices or hold some: each as it was last heard of, where it is, and which are gone for good."""

from collections import OrderedDict, defaultdict
from collections.abc import Collection

from device_plugin.cluster.pods import Known, later
from device_plugin.core.pods import Pod

# Pods that are gone are remembered for as long as a late answer or call could bring one back.
GONE_REMEMBERED = 10_000


class Roster:
    """By uid. Callers hold the state's lock."""

    def __init__(self) -> None:
        self._known: dict[str, Known] = {}
        self._on_node: dict[str, set[str]] = defaultdict(set)
        self._gone: OrderedDict[str, None] = OrderedDict()

    def get(self, uid: str) -> Pod | None:
        """The pod of this uid."""
        known = self._known.get(uid)
        return known.pod if known else None

    def all(self) -> list[Pod]:
        """All of them, ended ones that still exist included; without the lock, because it takes long for many."""
        # A list of values is made in one step of the interpreter, whatever other threads do.
        return [known.pod for known in list(self._known.values())]

    def is_gone(self, uid: str) -> bool:
        """True if the pod existed and was seen to be gone."""
        return uid in self._gone

    def unconfirmed(self, before: float) -> list[Pod]:
        """Pods that the watch has not shown, without news since `before`: they may be gone unheard of."""
        return [known.pod for known in self._known.values() if not known.watched and known.since <= before]

    def vanished(self, listed: Collection[str]) -> list[str]:
        """Pods that the watch had shown, and that are not among those it lists now."""
        return [uid for uid, known in self._known.items() if known.watched and uid not in listed]

    def see(self, pod: Pod, now: float, *, watched: bool) -> Pod:
        """Take news of a pod; returns what is known of it now: old news changes nothing."""
        known = self._known.get(pod.uid)
        if known is None:
            known = self._known[pod.uid] = Known(pod, watched, now)
        known.pod = later(known.pod, pod)
        known.watched |= watched
        known.since = now
        if known.pod.node and not known.pod.ended:
            self._on_node[known.pod.node].add(pod.uid)
        else:
            self._on_node[known.pod.node].discard(pod.uid)
        return known.pod

    def forget(self, uid: str) -> None:
        """The pod is gone, whether it was known or only expected."""
        known = self._known.pop(uid, None)
        if known is not None:
            self._on_node[known.pod.node].discard(uid)
        self._gone[uid] = None
        if len(self._gone) > GONE_REMEMBERED:
            self._gone.popitem(last=False)

    def on(self, node: str) -> list[Pod]:
        """Bound pods on a node that have not ended."""
        return [self._known[uid].pod for uid in self._on_node.get(node, ())]
