"""A workload: nodes with cards, and pods to place on them; read from a trace in the format of Alibaba's openb."""

import csv
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from pathlib import Path
from typing import TypeVar

from device_plugin.core.contract.cards import Card, Inventory
from device_plugin.core.hosts import HostAmounts
from device_plugin.core.requests import PodRequest, Request, Selector
from hack.bench.report import BenchError

T = TypeVar("T")

FAMILY = "bench.io/card"
# A trace gives only thousandths of a card: each becomes one memory unit, and slices take no core groups.
MILLI = 1000


@dataclass(frozen=True, slots=True)
class BenchNode:
    """A node with its cards, in the order of the file."""

    name: str
    room: HostAmounts
    inventory: Inventory


@dataclass(frozen=True, slots=True)
class BenchPod:
    """A pod of the workload; `memory` and `cores` are its shares of a card's memory and core groups (1.0: one card)."""

    name: str
    request: PodRequest
    memory: float
    cores: float = 0.0

    def named(self, number: int) -> "BenchPod":
        """A pod with this number as its name, and the same request."""
        return replace(self, name=f"{number}", request=replace(self.request, pod=f"{number}"))


class BenchWorkload:
    """Nodes, and pods in the order of their names. `capacity` is the number of cards of all nodes."""

    def __init__(self, nodes: Sequence[BenchNode], jobs: Sequence[BenchPod]) -> None:
        self.nodes = nodes
        self.jobs = jobs
        self.capacity = float(sum(len(node.inventory.cards) for node in nodes))
        self._by_memory = sum(job.memory for job in jobs) >= sum(job.cores for job in jobs)

    def cards(self, job: BenchPod) -> float:
        """The cards that a pod takes, in the dimension that is scarcer in this workload."""
        return job.memory if self._by_memory else job.cores


def read(nodes: Path, pods: Path) -> BenchWorkload:
    """A workload from two CSV files. Raises BenchError."""
    found = list(_parsed(nodes, ("sn", "cpu_milli", "memory_mib", "gpu", "model"), _node))
    jobs = sorted(_parsed(pods, ("name", "cpu_milli", "num_gpu", "gpu_milli"), _job), key=attrgetter("name"))
    if not any(node.inventory.cards for node in found) or not any(job.memory for job in jobs):
        raise BenchError(f"{nodes} has no card, or {pods} no pod that asks for one")
    return BenchWorkload([node for node in found if node.inventory.cards], jobs)


def lifetimes(pods: Path) -> Sequence[float]:
    """Seconds that the pods of a list ran; pods without both times are left out. Raises BenchError."""
    found = [each for each in _parsed(pods, ("scheduled_time", "deletion_time"), _lifetime) if each > 0]
    if not found:
        raise BenchError(f"{pods} has no pod with a scheduled_time and a later deletion_time")
    return found


def _lifetime(row: Mapping[str, str]) -> float:
    began, ended = row["scheduled_time"], row["deletion_time"]
    return float(ended) - float(began) if began and ended else 0.0


def _parsed(path: Path, columns: Iterable[str], parse: Callable[[Mapping[str, str]], T]) -> Iterator[T]:
    try:
        with path.open(newline="", encoding="utf-8") as file:
            reader = csv.DictReader(file)
            if missing := set(columns) - set(reader.fieldnames or ()):
                raise BenchError(f"{path} has no column {', '.join(sorted(missing))}")
            for row in reader:
                try:
                    yield parse(row)
                except (ValueError, TypeError) as error:
                    raise BenchError(f"{path}, line {reader.line_num}: {error}") from error
    except OSError as error:
        raise BenchError(f"{path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise BenchError(f"{path}: {error}") from error


def _node(row: Mapping[str, str]) -> BenchNode:
    cards = tuple(
        Card(
            f"{row['sn']}-{i}", FAMILY, row["model"], "", mem_mib=MILLI, units=MILLI, compute_units=1,
            core_groups=1, group_units=1, max_slices=MILLI, numa=-1, healthy=True,
        )
        for i in range(int(row["gpu"]))
    )  # fmt: skip
    return BenchNode(row["sn"], HostAmounts(int(row["cpu_milli"]), int(row["memory_mib"])), Inventory(cards))


def _job(row: Mapping[str, str]) -> BenchPod:
    count, milli = int(row["num_gpu"]), int(row["gpu_milli"])
    room = HostAmounts(int(row["cpu_milli"]), int(row.get("memory_mib") or 0))
    containers: tuple[tuple[str, Request], ...] = ()
    if count and milli == MILLI:
        containers = (("main", Request(FAMILY, whole=count)),)
    elif count == 1 and milli:
        containers = (("main", Request(FAMILY, mem=milli, cores=0)),)
    elif count:
        raise ValueError(f"{row['name']} asks for parts of {count} cards: only whole cards come in numbers")
    models = Selector(",".join(sorted({*(row.get("gpu_spec") or "").split("|")} - {""})))
    request = PodRequest(row["name"], containers, models, host=room)
    return BenchPod(row["name"], request, count * milli / MILLI)
