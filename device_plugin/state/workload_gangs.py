"""Makes the pods of each queued JobSet, RayJob and so on one gang, by the label that the workload's controller writes.

The pods of a JobSet or a RayCluster do not say how many they are; the workload does. So each pod gets the labels of a
gang when it is recorded: GROUP with the workload's name, and GROUP_SIZE. A pod whose author wrote a group keeps that
group.
"""

from collections.abc import Callable
from typing import NamedTuple

from msgspec import structs

from device_plugin.core.batch import Job
from device_plugin.core.contract.annotations import GROUP, GROUP_SIZE
from device_plugin.core.pods import Pod
from device_plugin.core.requests import MAX_GANG

_Label = tuple[str, str]
"""Namespace, and label of the pods."""


class _Gang(NamedTuple):
    """The workload's UID, its name as the name of a group, and the number of its pods."""

    uid: str
    name: str
    size: int


class WorkloadGangs:
    """The gangs of queued workloads. Callers hold the cluster view's lock, except for `labelled`, which needs none.

    `see_again` is called with the UID of each known pod whose gang has changed.
    """

    def __init__(self, see_again: Callable[[str], None]) -> None:
        self._see_again = see_again
        self._gangs: dict[_Label, _Gang] = {}
        self._labels: dict[str, _Label] = {}
        # The UIDs of known pods with such a label, by label, and the label of each.
        self._pods: dict[_Label, set[str]] = {}
        self._of: dict[str, _Label] = {}

    def see(self, job: Job) -> None:
        """Record a workload; if its gang has changed, the workload's known pods are recorded again with new labels.

        A workload has a gang only if its pods are created together, and are at least 2 and at most MAX_GANG.
        """
        label = job.namespace, job.pods_label
        gang = _Gang(job.uid, job.key[1], job.width)
        before = self._labels.get(job.uid)
        if before is not None and before != label:
            self.forget(job.uid)
        if not (job.pods_label and job.together and 1 < gang.size <= MAX_GANG):
            self.forget(job.uid)
        elif self._gangs.get(label) != gang:
            self._gangs[label], self._labels[job.uid] = gang, label
            self._changed(label)

    def forget(self, uid: str) -> None:
        """Remove a workload that is gone, or has left its queue."""
        label = self._labels.pop(uid, None)
        if label is not None and self._gangs[label].uid == uid:
            del self._gangs[label]
            self._changed(label)

    def labelled(self, pod: Pod) -> Pod:
        """The pod, with the labels of its workload's gang if it has one; labels of an earlier gang are removed.

        A pod whose author wrote a group is returned as it is.
        """
        group = pod.label(GROUP)
        # The names of our groups have a slash, which no label has.
        if not pod.workload or (group and "/" not in group) or (pod.label(GROUP_SIZE) and not group):
            return pod
        gang = self._gangs.get((pod.namespace, pod.workload))
        if gang is None and not group:
            return pod
        labels = {key: text for key, text in (pod.labels or {}).items() if key not in (GROUP, GROUP_SIZE)}
        if gang is not None:
            labels |= {GROUP: gang.name, GROUP_SIZE: str(gang.size)}
        return structs.replace(pod, labels=labels or None)

    def note(self, pod: Pod) -> None:
        """Record that the pod is known, so that it gets new labels when its workload's gang changes."""
        if pod.workload and pod.uid not in self._of:
            label = self._of[pod.uid] = pod.namespace, pod.workload
            self._pods.setdefault(label, set()).add(pod.uid)

    def drop(self, uid: str) -> None:
        """Remove a pod that is gone."""
        label = self._of.pop(uid, None)
        if label is not None:
            self._pods[label].discard(uid)
            if not self._pods[label]:
                del self._pods[label]

    def _changed(self, label: _Label) -> None:
        for uid in list(self._pods.get(label, ())):
            self._see_again(uid)
