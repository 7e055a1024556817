"""Cards and target workloads for the tests of policies."""

from device_plugin.core.hosts import HostAmounts
from device_plugin.core.placement.ask import Ask
from device_plugin.core.placement.columns import Kind
from device_plugin.core.placement.target import Weighted
from device_plugin.core.requests import Request, Selector
from tests.core.clusters import FAMILY

KIND = Kind(FAMILY, "Z100", 16368, 16, 60, 4)


def ask(
    mem: int | None = None, cores: int | None = None, whole: int = 0, cpu: int = 0, models: str = ""
) -> Ask:
    return Ask(Request(FAMILY, whole, mem, cores), Selector(models), host=HostAmounts(cpu))


def target(*asks: tuple[Ask, float]) -> tuple[Weighted, ...]:
    return tuple(Weighted(each, count) for each, count in asks)
