"""Returns memory that is no longer used to the system."""

import ctypes
from collections.abc import Callable

# Pods that must have come or gone, because returning free memory takes about 10 ms.
MANY_PODS = 500


def malloc_trim() -> Callable[[int], int] | None:
    """Glibc's function of this name, which other C libraries do not have."""
    found: Callable[[int], int] | None = getattr(ctypes.CDLL(None), "malloc_trim", None)
    return found


class MemoryReturn:
    """Returns free memory with each `step` before which many pods came or went.

    glibc keeps what is freed where something later is still in use: the texts of a tenant's 4,000 pods stayed with the
    process after the pods were gone, in both replicas.
    """

    def __init__(self, pods: Callable[[], int], trim: Callable[[int], int] | None) -> None:
        self._pods = pods
        self._trim = trim
        self._before = 0

    def step(self) -> None:
        """Give free memory back if many pods came or went since that was done last."""
        pods = self._pods()
        if self._trim is not None and abs(pods - self._before) >= MANY_PODS:
            self._trim(0)
            self._before = pods
