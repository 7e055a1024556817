"""The reference pages of settings, reasons, annotations and events, generated from their declarations in the code."""

import re
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from device_plugin.core.contract.annotations import KEYS
from device_plugin.core.contract.events import AGENT, CLUSTER, COMMANDS, ENGINE, Event
from device_plugin.core.contract.reasons import Reason
from device_plugin.node.api import BURST, REFILL_SECONDS
from device_plugin.wiring.setting_sources import settings_of
from device_plugin.wiring.settings import ClusterSettings, JobsSettings, NodeSettings, UiSettings
from vgpu_runtime.paths import SOURCES

PARAMETERS = "manifests/admission/parameters.yaml"
WRITTEN = "Written by `make {target}` from {source}: change that, not this page."
# A parameter with the lines of comment before it.
_PARAMETER = re.compile(r"((?:  # .*\n)+)  (\w+): (.*)\n")


def page(title: str, source: str, *parts: str, target: str = "docs") -> str:
    """The text of a page: its title, a line about its source and its make target, and its parts."""
    return "\n\n".join((f"# {title}", WRITTEN.format(target=target, source=source), *parts)) + "\n"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """The text of a Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |" for line in lines)


def settings() -> str:
    """The page: the settings of all services, and the parameters of the installation."""
    return page(
        "Settings",
        f"`device_plugin/wiring/settings.py` and `{PARAMETERS}`",
        "A flag beats an environment variable, which beats the file (`--config FILE` or `VGPU_CONFIG`, with"
        " `version: v1` and the keys below), which beats the default. Lists and mappings are written as JSON in flags"
        " and variables. Unknown keys, and keys written twice, are refused; variables that are not below are ignored,"
        " because Kubernetes itself sets some that begin with `VGPU_`. `VGPU_LOG_LEVEL` is the level of the log: DEBUG,"
        " INFO (the default), WARNING or ERROR.",
        "## Node agent (`vgpu node`)",
        _of(NodeSettings),
        "## Cluster service (`vgpu cluster`)",
        _of(ClusterSettings),
        "## Job engine (`vgpu job-engine`)",
        _of(JobsSettings),
        "## The page for a team (`vgpu ui-server`)",
        _of(UiSettings),
        "## Parameters of the installation",
        f"In [{PARAMETERS}](../../{PARAMETERS}): one place for what the admission policies and both services must agree"
        " on. Kustomize writes them into all three, so `kubectl apply -k` is enough after a change.",
        table(("parameter", "default", "means"), _parameters()),
    )


def reasons() -> str:
    """The page: every reason of a refusal."""
    return page(
        "Reasons",
        "`device_plugin/core/contract/reasons.py`",
        "Why a pod has no card now. The text stands in the pod's FailedScheduling event, and in `vgpu why` and"
        " /explain, where advice follows it. The label `reason` of `vgpu_unplaced_pods` has the first column. Texts in"
        " events hold only rounded numbers, because kube-scheduler tries a pod again whenever its event changes;"
        " `vgpu why` and /explain have the exact ones.",
        table(
            ("reason", "text, after a number of cards or nodes", "what to do"),
            ((f"`{reason.value}`", reason.text, reason.advice) for reason in Reason),
        ),
    )


def annotations() -> str:
    """The page: every annotation and label that the project reads or writes."""
    return page(
        "Annotations and labels",
        "`device_plugin/core/contract/annotations.py`",
        "Keys below `vgpu.io/` that are not in this list are refused when a pod that asks for a slice is created, and"
        " with the job engine's policies on a Job that waits in a queue.",
        table(
            ("key", "on", "written by", "means"),
            ((f"`{key.name}`", f"{key.object}, {key.kind}", key.writer, key.meaning) for key in KEYS),
        ),
    )


def events() -> str:
    """The page: every kind of event."""
    return page(
        "Events",
        "`device_plugin/core/contract/events.py`",
        "What vgpu writes into Kubernetes' events, and what to do about each. Events of a node are in the namespace"
        " `default`, those of a pod or a Job in its own: `kubectl get events -A --field-selector reason=SliceCovered`."
        f" All are warnings but {', '.join(f'`{event}`' for event in Event if not event.about.warning)}."
        f" The agent posts at most {BURST} events of one kind about its node at once, and then one in"
        f" {REFILL_SECONDS / 60:g} minutes; its log has all of them.",
        *(
            f"## From the {service}\n\n"
            + table(
                ("event", "of the", "cause", "what to do"),
                (
                    (f"`{event}`", event.about.kind, event.about.cause, event.about.advice)
                    for event in Event
                    if event.about.service == service
                ),
            )
            for service in (AGENT, CLUSTER, ENGINE, COMMANDS)
        ),
        "kube-scheduler's own event `FailedScheduling` holds the refusals: why no card fits a pod"
        " ([reasons](reasons.md)).",
    )


def _of(kind: type[msgspec.Struct]) -> str:
    return table(
        ("key in the file", "flag", "environment variable", "default", "means"),
        (
            (
                f"`{setting.key}`",
                f"`{setting.flag}`",
                f"`{setting.variable}`",
                f"`{setting.default}`" if setting.default else "",
                setting.description,
            )
            for setting in settings_of(kind)
        ),
    )


def _parameters() -> Iterator[Sequence[str]]:
    """The name, default and comment of each parameter; its comment is its description."""
    for comment, name, value in _PARAMETER.findall((SOURCES.parent / PARAMETERS).read_text(encoding="utf-8")):
        said = " ".join(line.strip().removeprefix("# ") for line in comment.splitlines())
        yield f"`{name}`", f"`{value}`", said
