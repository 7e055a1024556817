"""The chapters of `make demo`: six pods on two cards, and a check of each from outside."""

import json
from functools import partial
from importlib import resources
from typing import Any

import yaml

from device_plugin.core.contract.grants import Grant, Slice
from device_plugin.core.errors import VgpuError
from hack.demo.demo_api import DemoApi
from hack.demo.show import StoryPage
from hack.embedded.person import Object, phase

SHOWN = ("vgpu_slice_memory_limit_bytes", "vgpu_slice_memory_used_bytes", "vgpu_slice_core_groups")
USED = "vgpu_slice_memory_used_bytes{"
FITTING = ("notebook-a", "notebook-b", "trainer", "inference", "greedy")


class CheckFailedError(VgpuError):
    """A check of the demo failed; the text has the observed result."""


def tell(api: DemoApi, page: StoryPage) -> None:
    """Show all chapters of the demo. Raises CheckFailedError or NotInTimeError at the first check that fails."""
    page.title("Two cards, nobody on them")
    page.cards(api.until("an inventory of two cards", lambda: _two_cards(api)))

    page.title("Six pods ask for slices")
    page.requests(_submit(api))
    slices = {name: api.until(f"{name} to run", partial(_running, api, name)) for name in FITTING}
    page.slices(slices)
    page.cards(api.cards())
    groups = [(held.card, core) for held in slices.values() for core in held.cores]
    expect(len(groups) == len(set(groups)), "two pods hold the same core group")

    page.title("What a real HIP program sees inside each pod")
    seen = {
        name: api.until(f"{name} to report", partial(_report, api, name, "total_mib")) for name in FITTING
    }
    page.reports(seen, slices)
    for name, report in seen.items():
        _sees_its_slice(name, report, slices[name])

    page.title("One pod asks beyond its limit")
    refused = api.until("greedy to ask", lambda: _report(api, "greedy", "error"))
    expect(refused["error"] == "hipErrorOutOfMemory", f"greedy's 6 GiB ended in {refused['error']}")
    expect(slices["greedy"].card == slices["inference"].card, "greedy and inference share no card")
    neighbour = api.until("inference to allocate", lambda: _report(api, "inference", "error"))
    expect(neighbour["error"] == "hipSuccess", f"inference's allocation ended in {neighbour['error']}")
    page.limit(refused, neighbour)

    page.title("One pod fits nowhere, and says why")
    event = api.until("an event that says why too-big waits", lambda: _reason(api, "too-big"))
    waiting = api.until("an explanation for too-big", lambda: _waiting(api, "too-big"))
    page.line(f"its event:  {event}")
    page.line(f"/explain:   {waiting['text']}; {waiting['advice']}")

    page.title("What Prometheus sees of the slices")
    page.metrics(api.until("samples of five slices", lambda: _samples_in_use(api)))

    page.title("The trainer ends: its share goes to the pod that waited")
    api.delete("trainer")
    page.slices({"too-big": api.until("too-big to run", lambda: _running(api, "too-big"))})

    page.title("All pods end: everything is free again")
    for pod in api.pods():
        api.delete(pod["metadata"]["name"])
    api.until("no pods", lambda: not api.pods())
    page.cards(api.until("both cards to be free", lambda: two_free_cards(api)))
    api.until("no slice on the node", lambda: not _samples(api))


def _submit(api: DemoApi) -> list[Object]:
    text = resources.files("hack.demo").joinpath("pods.yaml").read_text(encoding="utf-8")
    pods = list(yaml.safe_load_all(text))
    for pod in pods:
        api.create(pod)
        name = pod["metadata"]["name"]
        if name in FITTING:  # one after another, so that every run places them on the same cards
            api.until(f"{name} to be placed", partial(_granted, api, name))
    return pods


def expect(held: bool, text: str) -> None:
    """Raise CheckFailedError with this text, unless the check held."""
    if not held:
        raise CheckFailedError(text)


def _two_cards(api: DemoApi) -> list[Object] | None:
    cards = api.cards()
    return cards if len(cards) == 2 else None


def two_free_cards(api: DemoApi) -> list[Object] | None:
    """Both cards, if no pod holds a slice of them."""
    cards = _two_cards(api) or []
    free = all(card["freeMiB"] == card["memMiB"] and not card["slices"] for card in cards)
    return cards if free else None


def _running(api: DemoApi, name: str) -> Slice | None:
    pod = api.pod(name)
    if pod is None or phase(pod) == "Failed":
        raise CheckFailedError(f"{name} failed: {(pod or {}).get('status')}")
    return _granted(api, name) if phase(pod) == "Running" else None


def _granted(api: DemoApi, name: str) -> Slice | None:
    """The only slice of a pod; None until the pod has its grant."""
    pod = api.pod(name) or {"metadata": {}}
    text = pod["metadata"].get("annotations", {}).get("vgpu.io/grant")
    return next(Grant.decode(text).slices()) if text else None


def _report(api: DemoApi, name: str, key: str) -> Object | None:
    for line in api.logs(name).splitlines():
        try:
            value: Any = json.loads(line)
        except ValueError:
            continue
        if isinstance(value, dict) and key in value:
            return value
    return None


def _sees_its_slice(name: str, report: Object, own: Slice) -> None:
    expect(report["total_mib"] == own.mem_mib, f"{name} sees {report['total_mib']} MiB, holds {own.mem_mib}")
    expect(report["units"] == len(own.cores), f"{name} sees {report['units']} units, holds {len(own.cores)}")
    expect(report["free_mib"] <= own.mem_mib, f"{name} sees more free memory than it holds")


def _reason(api: DemoApi, name: str) -> str | None:
    texts = [
        text for text in api.events(name) if text.startswith("FailedScheduling: ") and "lack memory" in text
    ]
    return texts[-1].removeprefix("FailedScheduling: ") if texts else None


def _waiting(api: DemoApi, name: str) -> Object | None:
    return next((entry for entry in api.explain()["waiting"] if entry["pod"] == name and entry["text"]), None)


def _samples(api: DemoApi) -> list[str]:
    return [line for line in api.metrics() if line.startswith(SHOWN)]


def _samples_in_use(api: DemoApi) -> list[str] | None:
    """All samples; None until every slice uses memory."""
    samples = _samples(api)
    used = [line for line in samples if line.startswith(USED) and not line.endswith(" 0.0")]
    return samples if len(used) == len(FITTING) else None
