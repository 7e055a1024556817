"""Tables of objects, as `kubectl get` prints them."""

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

Object = dict[str, Any]
Columns = Mapping[str, Callable[[Object], str]]


def age(moment: str | None) -> str:
    """The time since a moment, in kubectl's format (see `duration`)."""
    if not moment:
        return "<unknown>"
    return duration((datetime.now(UTC) - datetime.fromisoformat(moment)).total_seconds())


def duration(seconds: float) -> str:
    """A duration in kubectl's format: 45s, 2m10s, 12m, 3h5m, 9d."""
    left = max(int(seconds), 0)
    minutes, hours, days = left // 60, left // 3600, left // 86400
    if left < 120:
        return f"{left}s"
    if minutes < 10:
        return f"{minutes}m{f'{left % 60}s' if left % 60 else ''}"
    if minutes < 180:
        return f"{minutes}m"
    if hours < 8:
        return f"{hours}h{f'{minutes % 60}m' if minutes % 60 else ''}"
    if hours < 48:
        return f"{hours}h"
    return f"{days}d{f'{hours % 24}h' if days < 8 and hours % 24 else ''}"


def _created(found: Object) -> str:
    return age(found["metadata"].get("creationTimestamp"))


def _ready(pod: Object) -> str:
    statuses = (pod.get("status") or {}).get("containerStatuses") or []
    return f"{sum(1 for each in statuses if each.get('ready'))}/{len(pod['spec']['containers'])}"


def _status(pod: Object) -> str:
    """The phase of a pod, or the reason why one of its containers waits or has ended."""
    if pod["metadata"].get("deletionTimestamp"):
        return "Terminating"
    status = pod.get("status") or {}
    for each in status.get("containerStatuses") or ():
        state = each.get("state") or {}
        if said := (state.get("waiting") or state.get("terminated") or {}).get("reason"):
            return str(said)
    return str(status.get("reason") or status.get("phase") or "Unknown")


def _restarts(pod: Object) -> str:
    return str(
        sum(each.get("restartCount", 0) for each in (pod.get("status") or {}).get("containerStatuses") or ())
    )


def _job_status(job: Object) -> str:
    true = [
        each["type"] for each in (job.get("status") or {}).get("conditions") or () if each["status"] == "True"
    ]
    return next((word for word in ("Complete", "Failed", "Suspended") if word in true), "Running")


def _completions(job: Object) -> str:
    return f"{(job.get('status') or {}).get('succeeded', 0)}/{job['spec'].get('completions', 1)}"


def _job_time(job: Object) -> str:
    status = job.get("status") or {}
    if not status.get("startTime"):
        return ""
    end = status.get("completionTime")
    until = datetime.fromisoformat(end) if end else datetime.now(UTC)
    return duration((until - datetime.fromisoformat(status["startTime"])).total_seconds())


def _node_status(node: Object) -> str:
    ready = any(
        each["type"] == "Ready" and each["status"] == "True"
        for each in node["status"].get("conditions") or ()
    )
    return ("Ready" if ready else "NotReady") + (
        ",SchedulingDisabled" if node.get("spec", {}).get("unschedulable") else ""
    )


def _of(*path: str, default: str = "<none>") -> Callable[[Object], str]:
    def read(found: Object) -> str:
        value: Any = found
        for key in path:
            value = (value or {}).get(key)
        return default if value in (None, "") else str(value)

    return read


def _quota(quota: Object) -> str:
    status = quota.get("status") or {}
    hard = status.get("hard") or quota["spec"].get("hard") or {}
    return ", ".join(
        f"{name}: {(status.get('used') or {}).get(name, '0')}/{amount}" for name, amount in hard.items()
    )


_NAME = _of("metadata", "name")
COLUMNS: Mapping[str, Columns] = {
    "pods": {"NAME": _NAME, "READY": _ready, "STATUS": _status, "RESTARTS": _restarts, "AGE": _created},
    "nodes": {
        "NAME": _NAME, "STATUS": _node_status, "ROLES": lambda _: "<none>", "AGE": _created,
        "VERSION": _of("status", "nodeInfo", "kubeletVersion"),
    },
    "jobs": {
        "NAME": _NAME, "STATUS": _job_status,
        "COMPLETIONS": _completions,
        "DURATION": _job_time, "AGE": _created,
    },
    "events": {
        "LAST SEEN": lambda event: age(event.get("lastTimestamp") or event["metadata"].get("creationTimestamp")),
        "TYPE": _of("type"), "REASON": _of("reason"),
        "OBJECT": lambda event: f"{event['involvedObject']['kind'].lower()}/{event['involvedObject']['name']}",
        "MESSAGE": _of("message"),
    },
    "deployments": {
        "NAME": _NAME,
        "READY": lambda found: f"{found['status'].get('readyReplicas', 0)}/{found['spec'].get('replicas', 1)}",
        "UP-TO-DATE": _of("status", "updatedReplicas", default="0"),
        "AVAILABLE": _of("status", "availableReplicas", default="0"), "AGE": _created,
    },
    "daemonsets": {
        "NAME": _NAME, "DESIRED": _of("status", "desiredNumberScheduled", default="0"),
        "READY": _of("status", "numberReady", default="0"), "AGE": _created,
    },
    "resourcequotas": {"NAME": _NAME, "REQUEST": _quota, "LIMIT": lambda _: "", "AGE": _created},
}  # fmt: skip
_WIDE: Mapping[str, Columns] = {"pods": {"IP": _of("status", "podIP"), "NODE": _of("spec", "nodeName")}}
_PLAIN: Columns = {"NAME": _NAME, "AGE": _created}


def table(plural: str, found: Sequence[Object], *, namespaces: bool = False, wide: bool = False) -> str:
    """The lines of a table with titles; `namespaces` adds a column with the objects' namespaces."""
    columns = {
        **({"NAMESPACE": _of("metadata", "namespace")} if namespaces else {}),
        **COLUMNS.get(plural, _PLAIN), **(_WIDE.get(plural, {}) if wide else {}),
    }  # fmt: skip
    rows = [list(columns), *([cell(each) for cell in columns.values()] for each in found)]
    widths = [max(len(row[index]) for row in rows) for index in range(len(columns))]
    lines = ("   ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows)
    return "\n".join(line.rstrip() for line in lines)
