"""Cards and target workloads for the tests of policies."""

from device_plugin.core.hosts import HostAmounts
from device_plugin.core.placement.table import Kind
from device_plugin.core.placement.workload import Weighted
from device_plugin.core.requests import Request, Selector, Shape
from tests.core.clusters import FAMILY

KIND = Kind(FAMILY, "Z100", 16368, 16, 60, 4)


def shape(
    mem: int | None = None, cores: int | None = None, whole: int = 0, cpu: int = 0, models: str = ""
) -> Shape:
    return Shape(Request(FAMILY, whole, mem, cores), Selector(models), host=HostAmounts(cpu))


def target(*shapes: tuple[Shape, float]) -> tuple[Weighted, ...]:
    return tuple(Weighted(each, count) for each, count in shapes)
