"""Changes that a person makes on the page, each by the code of a command of `vgpu`.

The API server allows a change or refuses it: the client has the rights of the person.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any

from device_plugin.adapters.kube.client import KubeClient
from device_plugin.cli import cordon
from device_plugin.cli.access import engine
from device_plugin.cli.access.names import Named
from device_plugin.cli.holding import switched
from device_plugin.cli.queue import admitted
from device_plugin.cli.reading.targets import NodeCard
from device_plugin.cli.resume import RESUME
from device_plugin.cli.stop import STOP
from device_plugin.core.errors import VgpuError
from device_plugin.kube.api import WORKLOADS, Ref

# Most characters of a name.
MOST_NAME = 253
# Names of nodes, namespaces, Jobs and cards; a card may be named by its PCI address.
_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.:_-]*[A-Za-z0-9])?")


class ChangeError(VgpuError):
    """A change is malformed, or there are too many at the same time; nothing was written.

    Cure: load the page again, and try again.
    """


def make(client: KubeClient, wanted: Mapping[str, Any]) -> str:
    """Make the change that `wanted` describes, with the rights of the client; returns text that says what was done.

    Raises ChangeError, ApiError, and the errors of the commands.
    """
    change = _CHANGES.get(str(wanted.get("action")))
    if change is None:
        raise ChangeError("the page offers no such change")
    return change(client, wanted)


def _text(wanted: Mapping[str, Any], key: str) -> str:
    """Returns the name under `key` in the wanted change. Raises ChangeError if it is missing or malformed.

    A malformed name could lead a request to another API object.
    """
    found = wanted.get(key)
    if not isinstance(found, str) or len(found) > MOST_NAME or not _NAME.fullmatch(found):
        raise ChangeError(f"{key} is missing or malformed")
    return found


def _job(wanted: Mapping[str, Any]) -> Named:
    """Returns the job that the wanted change names: `train` for a Job, `jobset/train` for another kind."""
    word, _, name = str(wanted.get("name")).rpartition("/")
    kind = engine.WORKLOAD_WORDS.get(word, "")
    named = {**wanted, "name": name} if kind else wanted
    return Named(kind, Ref(_text(named, "name"), _text(wanted, "namespace")))


def _card(client: KubeClient, wanted: Mapping[str, Any]) -> NodeCard:
    return cordon.found(client, f"{_text(wanted, 'node')}/{_text(wanted, 'card')}")


def _cordoned(client: KubeClient, wanted: Mapping[str, Any]) -> str:
    return cordon.write(client, _card(client, wanted), cordon.note_of(client, ""))


def _uncordoned(client: KubeClient, wanted: Mapping[str, Any]) -> str:
    return cordon.write(client, _card(client, wanted), None)


def _deleted(client: KubeClient, wanted: Mapping[str, Any]) -> str:
    job = engine.found(client, _job(wanted))
    client.delete(WORKLOADS[job.kind], Ref(job.name, job.namespace, job.uid))
    return f"job {'/'.join(job.key)} is deleted, and its pods end"


_CHANGES: Mapping[str, Callable[[KubeClient, Mapping[str, Any]], str]] = {
    "cordon": _cordoned,
    "uncordon": _uncordoned,
    "admit": lambda client, wanted: admitted(client, _job(wanted)),
    "stop": lambda client, wanted: switched(client, _job(wanted), STOP),
    "resume": lambda client, wanted: switched(client, _job(wanted), RESUME),
    "cancel": _deleted,
}
