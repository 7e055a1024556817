"""The audit log, read while the API server writes it."""

import json
from pathlib import Path

from hack.testbed import audit


def line(name: str) -> str:
    event = {
        "stage": "ResponseComplete",
        "verb": "update",
        "user": {"username": f"{audit.SERVICES}vgpu-jobs"},
        "objectRef": {"resource": "jobs", "namespace": "default", "name": name},
        "responseStatus": {"code": 200},
        "requestReceivedTimestamp": "2026-01-01T00:00:00.000000Z",
    }
    return json.dumps(event) + "\n"


def names(log: Path, after: int = 0) -> list[str]:
    return [call.name for call in audit.calls(log, after)]


def test_lines_that_are_not_whole_are_left_out(tmp_path: Path) -> None:
    log = tmp_path / "audit.log"
    log.write_text(line("a") + line("b") + line("c")[:-20])
    assert names(log) == ["a", "b"]
    first = len(line("a"))
    assert names(log, first) == ["b"]
    assert names(log, first - 20) == ["b"]
    assert names(log, first + 20) == []
