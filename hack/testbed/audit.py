"""Reads the requests of our services from the API server's audit log (see control_plane.AUDIT_POLICY)."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

SERVICES = "system:serviceaccount:vgpu-system:"
READS = ("get", "list", "watch")


@dataclass(frozen=True)
class Call:
    """A request in the audit log. `resource` includes the subresource (pods/binding), `client` is the program.

    `at` is the time at which it came, in seconds since 1970.
    """

    service: str
    verb: str
    group: str
    resource: str
    namespace: str
    name: str
    client: str
    code: int
    at: float = 0.0

    @property
    def ours(self) -> bool:
        """True for requests of our own programs; false for the kube-scheduler with the cluster service's account."""
        return not self.client.startswith("kube-scheduler")

    @property
    def writes(self) -> bool:
        """True if the request asks for a change."""
        return self.verb not in READS


def calls(log: Path, after: int = 0) -> Iterator[Call]:
    """Yield all finished requests to resources from byte `after` of the log on, the oldest first.

    An incomplete line is left out: the last line, or the line in which `after` is.
    """
    with log.open("rb") as lines:
        if after:
            lines.seek(after - 1)
            lines.readline()
        for line in lines:
            if not line.endswith(b"\n"):
                return
            event = json.loads(line)
            user, about = event["user"]["username"], event.get("objectRef")
            if event["stage"] == "ResponseComplete" and user.startswith(SERVICES) and about:
                subresource = about.get("subresource", "")
                yield Call(
                    user.removeprefix(SERVICES),
                    event["verb"],
                    about.get("apiGroup", ""),
                    about["resource"] + (f"/{subresource}" if subresource else ""),
                    about.get("namespace", ""),
                    about.get("name", ""),
                    event.get("userAgent", ""),
                    event["responseStatus"]["code"],
                    datetime.fromisoformat(event["requestReceivedTimestamp"]).timestamp(),
                )
