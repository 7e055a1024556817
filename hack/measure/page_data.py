"""Generates the entries of a random cluster for the page of `vgpu ui`."""

import random
import time
from collections.abc import Mapping
from typing import Any

from device_plugin.cli.ui.day import COLUMN_SECONDS, LEVELS
from device_plugin.cli.ui.entries import PageEntries

Row = dict[str, Any]
MODELS = (("Z100", 16368, 60, 4), ("Z100L", 32752, 60, 4), ("K100", 65520, 120, 4), ("BW1000", 65520, 80, 4))
NAMESPACES = ("team-vision", "team-speech", "research", "serving", "notebooks", "batch")
PODS = ("trainer", "notebook", "inference", "evaluate", "tokenizer", "serve-llm")
# Models whose cards are linked in groups of four.
LINKED = ("BW1000",)
# Sizes of slices in quarters of a card, from which one is drawn.
QUARTERS = (1, 1, 1, 1, 2)

# Jobs are shown over time up to now: their times follow the clock, in seconds since 1970.
NOW = int(time.time())
BEGAN = NOW - 3 * 3600


def fill(entries: PageEntries, nodes: int, cards: int = 8, seed: int = 1, jobs: int = 7) -> Mapping[str, Row]:
    """Put a cluster of `nodes` nodes and `jobs` queued Jobs into the entries; returns the nodes by name.

    5,000 nodes with 8 cards each have about 68,000 slices.
    """
    rng = random.Random(seed)
    made = {f"gpu-{number:04}": node(rng, f"{number:04x}", cards) for number in range(1, nodes + 1)}
    entries.put("about", {"page": {"use": False}, "cluster": {"read": True}, "use": {"notes": []}})
    entries.put("node", made)
    for name, row in made.items():
        if rng.random() < 0.9:
            entries.put("use", use(rng, name, row))
    entries.put("day", {name: day(rng) for name in made})
    entries.put("waiting", {f"research/sweep-{i}": waiting(i) for i in range(12)})
    entries.put("gang", {f"batch/llama-{i}": gang(i) for i in range(3)})
    entries.put("job", {f"batch/pretrain-{i}": job(i) for i in range(jobs)})
    entries.put("times", {f"uid-{i}": times(i) for i in range(jobs)})
    return made


def node(rng: random.Random, mark: str, cards: int) -> Row:
    """A node with cards of one model and random slices."""
    model = rng.choice(MODELS)
    fullness = max(rng.random(), rng.random())
    linked = model[0] in LINKED
    return {
        "serving": rng.random() > 0.004,
        "complete": True,
        "cards": [
            card(rng, f"GPU-{mark}0000000{i:x}", model, fullness)
            | {"hive": str(1 + i // 4) if linked else "", "numa": i // 4}
            for i in range(cards)
        ],
    }


def use(rng: random.Random, node: str, row: Row) -> Mapping[str, Row]:
    """The use of the slices of a node by namespace; one slice in ten is idle, and of one in thirty nothing is known."""
    found: dict[str, Row] = {}
    for card in row["cards"]:
        for each in card["slices"]:
            if rng.random() > 1 / 30:
                on_card = found.setdefault(f"{node} {each['namespace']}", {}).setdefault(card["uuid"], {})
                on_card[f"{each['pod']}/{each['container']}"] = _figures(rng, each)
    return found


def _figures(rng: random.Random, part: Row) -> list[float | None]:
    groups = sum(last + 1 - first for first, last in part["cores"])
    used, idle = round(part["mib"] * rng.random()), rng.random() < 0.1
    busy = 0.0 if idle else round(groups * rng.random(), 1)
    return [used, busy, part["mib"] if idle else part["mib"] - used, NOW - 7200 if idle else 0]


def card(rng: random.Random, uuid: str, model: tuple[str, int, int, int], fullness: float) -> Row:
    """A card with random slices, each of one or two quarters."""
    name, mib, groups, most = model
    slices: list[Row] = []
    quarter = 0
    while quarter < 4 and rng.random() < fullness:
        size = min(rng.choice(QUARTERS), 4 - quarter)
        first, last = quarter * groups // 4, (quarter + size) * groups // 4 - 1
        slices.append({
            "namespace": rng.choice(NAMESPACES), "pod": f"{rng.choice(PODS)}-{rng.randrange(16**5):05x}",
            "container": "main", "mib": size * mib // 4, "cores": [[first, last]],
            "since": f"2026-11-{rng.randint(10, 22)}T{rng.randrange(24):02}:{rng.randrange(60):02}:00Z",
            "job": f"pretrain-{rng.randrange(4)}" if rng.random() < 0.3 else "",
            "state": "outliving" if rng.random() < 0.002 else "",
        })  # fmt: skip
        quarter += size
    taken = sum(s["mib"] for s in slices)
    return {
        "uuid": uuid, "model": name, "family": "hygon.com/dcu", "mib": mib, "freeMiB": mib - taken,
        "groups": groups, "freeGroups": groups - quarter * groups // 4, "most": most, "free": most - len(slices),
        "state": rng.choices(("", "unhealthy", "cordoned"), (300, 1, 2))[0], "slices": slices,
    }  # fmt: skip


def day(rng: random.Random) -> Row:
    """The held share of a node's memory over the last nine hours."""
    share, levels = rng.randrange(len(LEVELS)), ""
    for _ in range(54):
        share = min(max(share + rng.choice((-3, -1, 0, 0, 1, 3)), 0), len(LEVELS) - 1)
        levels += LEVELS[share]
    return {"last": NOW // COLUMN_SECONDS, "levels": levels}


def waiting(number: int) -> Row:
    """A waiting pod."""
    return {
        "namespace": "research", "pod": f"sweep-{number}", "owner": "Job sweep",
        "asks": "hygon.com/dcu-mem: 48, hygon.com/dcu-cores: 60",
        "since": f"2026-11-22T{number:02}:10:00Z", "reason": "memory",
        "text": "no card fits: 312 cards have less free memory than 48 units, 40 cards are of another model",
        "advice": "wait until slices end, or ask for less memory",
    }  # fmt: skip


def gang(number: int) -> Row:
    """A gang of eight pods; gang 0 waits, the others are bound."""
    why = "" if number else "no room for all 8 pods: 6 fit now"
    return {
        "namespace": "batch", "group": f"llama-{number}", "sizes": [8], "reserved": 0, "finished": 0, "why": why,
        "pods": [f"llama-{number}-{i}" for i in range(8)], "bound": 8 if number else 0,
    }  # fmt: skip


def job(number: int) -> Row:
    """A queued job; of each seven the first four run, the others wait."""
    waits = number % 7 > 3
    began = _began(number)
    return {
        "namespace": "batch", "name": f"pretrain-{number}", "queue": "default", "place": number - 3 if waits else None,
        "phase": "waiting" if waits else "running", "width": 0 if waits else 4, "min": 1, "max": 8,
        "widths": [1, 2, 4, 8] if number == 1 else None,
        "progress": None if waits else {"done": 1200 * (number + 1), "total": 6000},
        "secondsLeft": None if waits else 5400, "waitsFor": "room for 4 pods" if waits else "",
        "since": began, "nextChange": None, "why": "",
        "expected": {"width": 4, "start": NOW + 600 * (number % 7), "end": NOW + 5400, "promised": number % 7 == 4}
        if waits else {"width": 4, "start": None, "end": NOW + 5400, "promised": False},
    }  # fmt: skip


def times(number: int) -> Row:
    """The times of a queued job, which the command saw from its second stay on."""
    waits, began = number % 7 > 3, _began(number)
    widths = (0,) if waits else (2, 8, 0, 4)
    stays = [
        [began + 1200 * i, width, "running" if width else "stopped" if i else "waiting"]
        for i, width in enumerate(widths)
    ]
    return {
        "namespace": "batch", "name": f"pretrain-{number}", "queue": "default", "seen": began + 600, "stays": stays,
        "ended": None, "outcome": "",
    }  # fmt: skip


def _began(number: int) -> int:
    return BEGAN + number % 7 * 900
