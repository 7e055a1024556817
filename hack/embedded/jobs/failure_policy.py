"""podFailurePolicy: the consequence of a failed pod for its Job, by its containers' exit codes and its conditions."""

from collections.abc import Iterator, Mapping
from typing import Any

Object = Mapping[str, Any]


def action(policy: Object | None, pod: Object) -> tuple[str, str]:
    """The action of the first matching rule, with a message; `Count` with an empty message if no rule matches."""
    for index, rule in enumerate((policy or {}).get("rules") or ()):
        matched = _by_exit_code(rule, pod) or _by_condition(rule, pod)
        if matched:
            return str(rule["action"]), f"{matched} matching {rule['action']} rule at index {index}"
    return "Count", ""


def _by_exit_code(rule: Object, pod: Object) -> str:
    wanted = rule.get("onExitCodes") or {}
    for name, code in _ended(pod) if wanted else ():
        if wanted.get("containerName") in (None, name) and (code in wanted["values"]) is (
            wanted["operator"] == "In"
        ):
            return f"Container {name} for pod {_named(pod)} failed with exit code {code}"
    return ""


def _ended(pod: Object) -> Iterator[tuple[str, int]]:
    """Name and exit code of each container that failed."""
    for key in ("containerStatuses", "initContainerStatuses"):
        for status in pod["status"].get(key) or ():
            ended = (status.get("state") or {}).get("terminated")
            if ended and ended["exitCode"]:
                yield status["name"], ended["exitCode"]


def _by_condition(rule: Object, pod: Object) -> str:
    wanted = {(one["type"], one.get("status", "True")) for one in rule.get("onPodConditions") or ()}
    for condition in pod["status"].get("conditions") or ():
        if (condition["type"], condition["status"]) in wanted:
            return f"Pod {_named(pod)} has condition {condition['type']}"
    return ""


def _named(pod: Object) -> str:
    return f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
