"""Host amounts: CPU, memory and disk that pods request and that nodes have free."""

from msgspec import Struct


class HostAmounts(Struct, frozen=True, gc=False):
    """Amounts of a host: CPU in thousandths of a core, memory and disk (ephemeral storage) in MiB."""

    cpu_milli: int = 0
    memory_mib: int = 0
    disk_mib: int = 0

    def __add__(self, other: "HostAmounts") -> "HostAmounts":
        return HostAmounts(
            self.cpu_milli + other.cpu_milli,
            self.memory_mib + other.memory_mib,
            self.disk_mib + other.disk_mib,
        )

    def __sub__(self, other: "HostAmounts") -> "HostAmounts":
        return HostAmounts(
            self.cpu_milli - other.cpu_milli,
            self.memory_mib - other.memory_mib,
            self.disk_mib - other.disk_mib,
        )


NOTHING = HostAmounts()
