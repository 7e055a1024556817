"""The chapters of `make demo`: six pods on two cards, and a check of every promise from outside."""

import json
import time
from collections.abc import Callable
from functools import partial
from importlib import resources
from typing import Any, TypeVar

import yaml

from device_plugin.core.errors import VgpuError
from device_plugin.core.grants import Grant, Slice
from hack.demo.api import DemoApi
from hack.demo.show import Page
from hack.embedded.person import Object

WAIT_SECONDS = 25.0
SHOWN = ("vgpu_slice_memory_limit_bytes", "vgpu_slice_memory_used_bytes", "vgpu_slice_core_groups")
FITTING = ("notebook-a", "notebook-b", "trainer", "inference", "greedy")
T = TypeVar("T")


class BrokenPromiseError(VgpuError):
    """A check of the demo failed; the text has the observed result."""


def tell(api: DemoApi, page: Page) -> None:
    """Show all chapters of the demo. Raises BrokenPromiseError at the first check that fails."""
    page.title("Two cards, nobody on them")
    page.cards(_until("an inventory of two cards", lambda: _cards(api, 2)))

    page.title("Six pods ask for slices")
    page.requests(_submit(api))
    grants = {name: _until(f"{name} to run", partial(_running, api, name)) for name in FITTING}
    page.grants(grants)
    page.cards(api.cards())
    _disjoint(grants)

    page.title("What a real HIP program sees inside each pod")
    seen = {name: _until(f"{name} to report", partial(_report, api, name, "total_mib")) for name in FITTING}
    page.reports(seen, grants)
    for name, report in seen.items():
        _sees_its_slice(name, report, grants[name])

    page.title("One pod asks beyond its limit")
    refused = _until("greedy to ask", lambda: _report(api, "greedy", "error"))
    _expect(refused["error"] == "hipErrorOutOfMemory", f"greedy's 6 GiB ended in {refused['error']}")
    _expect(
        _slice(grants["greedy"]).card == _slice(grants["inference"]).card,
        "greedy and inference share no card",
    )
    neighbour = _until("inference to allocate", lambda: _report(api, "inference", "error"))
    _expect(neighbour["error"] == "hipSuccess", f"inference's allocation ended in {neighbour['error']}")
    page.limit(refused, neighbour)

    page.title("One pod fits nowhere, and says why")
    event = _until("an event that says why too-big waits", lambda: _reason(api, "too-big"))
    waiting = _until("an explanation for too-big", lambda: _waiting(api, "too-big"))
    page.line(f"its event:  {event}")
    page.line(f"/explain:   {waiting['text']}; {waiting['advice']}")

    page.title("What Prometheus sees of the slices")
    page.metrics(_until("samples of five slices", lambda: _samples(api)))

    page.title("The trainer ends: its share goes to the pod that waited")
    api.delete("trainer")
    grant = _until("too-big to run", lambda: _running(api, "too-big"))
    page.grants({"too-big": grant})

    page.title("All pods end: everything is free again")
    for pod in api.pods():
        api.delete(pod["metadata"]["name"])
    _until("no pods", lambda: not api.pods() or None)
    page.cards(_until("both cards to be free", lambda: _all_free(api)))
    _until("no slice on the node", lambda: not _slice_samples(api) or None)


def _submit(api: DemoApi) -> list[Object]:
    text = resources.files("hack.demo").joinpath("pods.yaml").read_text(encoding="utf-8")
    pods = list(yaml.safe_load_all(text))
    for pod in pods:
        api.create(pod)
        name = pod["metadata"]["name"]
        if name in FITTING:  # one after another, so that the same pods always share a card
            _until(f"{name} to be placed", partial(_granted, api, name))
    return pods


def _until(what: str, look: Callable[[], T | None]) -> T:
    deadline = time.monotonic() + WAIT_SECONDS
    while time.monotonic() < deadline:
        found = look()
        if found is not None:
            return found
        time.sleep(0.05)
    raise BrokenPromiseError(
        f"waited {WAIT_SECONDS:.0f} s for {what}, in vain (`vgpu demo status` shows more)"
    )


def _expect(held: bool, text: str) -> None:
    if not held:
        raise BrokenPromiseError(text)


def _cards(api: DemoApi, count: int) -> list[Object] | None:
    cards = api.cards()
    return cards if len(cards) == count else None


def _all_free(api: DemoApi) -> list[Object] | None:
    cards = _cards(api, 2)
    free = cards is not None and all(
        card["freeMiB"] == card["memMiB"] and not card["slices"] for card in cards
    )
    return cards if free else None


def _running(api: DemoApi, name: str) -> Grant | None:
    pod = api.pod(name)
    if pod is None or pod["status"].get("phase") == "Failed":
        raise BrokenPromiseError(f"{name} failed: {(pod or {}).get('status')}")
    return _granted(api, name) if pod["status"].get("phase") == "Running" else None


def _granted(api: DemoApi, name: str) -> Grant | None:
    pod = api.pod(name) or {"metadata": {}}
    text = pod["metadata"].get("annotations", {}).get("vgpu.io/grant")
    return Grant.decode(text) if text else None


def _slice(grant: Grant) -> Slice:
    (only,) = grant.slices()
    return only


def _disjoint(grants: dict[str, Grant]) -> None:
    slices = [_slice(grant) for grant in grants.values()]
    held = [(s.card, core) for s in slices for core in s.cores]
    _expect(len(held) == len(set(held)), "two pods hold the same core group")


def _report(api: DemoApi, name: str, key: str) -> Object | None:
    for line in api.logs(name).splitlines():
        try:
            value: Any = json.loads(line)
        except ValueError:
            continue
        if isinstance(value, dict) and key in value:
            return value
    return None


def _sees_its_slice(name: str, report: Object, grant: Grant) -> None:
    own = _slice(grant)
    _expect(report["total_mib"] == own.mem_mib, f"{name} sees {report['total_mib']} MiB, holds {own.mem_mib}")
    _expect(report["units"] == len(own.cores), f"{name} sees {report['units']} units, holds {len(own.cores)}")
    _expect(report["free_mib"] <= own.mem_mib, f"{name} sees more free memory than it holds")


def _reason(api: DemoApi, name: str) -> str | None:
    texts = [
        text for text in api.events(name) if text.startswith("FailedScheduling: ") and "lack memory" in text
    ]
    return texts[-1].removeprefix("FailedScheduling: ") if texts else None


def _waiting(api: DemoApi, name: str) -> Object | None:
    return next((entry for entry in api.explain()["waiting"] if entry["pod"] == name and entry["text"]), None)


def _slice_samples(api: DemoApi) -> list[str]:
    return [line for line in api.metrics("node") if line.startswith(SHOWN)]


def _samples(api: DemoApi) -> list[str] | None:
    used = [line for line in _slice_samples(api) if line.startswith("vgpu_slice_memory_used_bytes{")]
    return (
        _slice_samples(api)
        if len(used) == len(FITTING) and not any(u.endswith(" 0.0") for u in used)
        else None
    )
