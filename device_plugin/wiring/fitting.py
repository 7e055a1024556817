"""Make the tables of placement policies in a process of its own, which is there only as long as that takes."""

import ctypes
import os
import signal
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context

from device_plugin.cluster.ports import FitError
from device_plugin.core.placement.columns import Kind
from device_plugin.core.placement.tables import Tables
from device_plugin.core.placement.target import Weighted

POLITENESS = 10
# A thousand pods that all ask for something else take minutes; what takes longer is not worth it.
MOST_SECONDS = 900
_PR_SET_PDEATHSIG = 1


def tables(kinds: Sequence[Kind], supply: Sequence[int], asks: Sequence[Weighted]) -> Tables:
    """As Tables itself makes them. Raises FitError if the process fails, is killed, or takes MOST_SECONDS.

    What tables are made of is what people write into their pods: whatever goes wrong over it, the service stays.
    """
    try:
        with ProcessPoolExecutor(
            1, mp_context=get_context("spawn"), initializer=_begin, initargs=(os.getpid(), MOST_SECONDS)
        ) as pool:
            return pool.submit(Tables, kinds, supply, asks).result()
    except BrokenProcessPool as error:
        raise FitError("the process that makes the tables was killed, or took too long") from error
    except Exception as error:  # whatever a strange workload makes numpy say
        raise FitError(f"the process that makes the tables failed: {error!r}") from error


def _begin(service: int, seconds: int) -> None:
    """Be polite, and end in time, and with the service, however it ends: prctl(2). Else this process waits forever."""
    os.nice(POLITENESS)
    signal.alarm(seconds)
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != service:
        os.kill(os.getpid(), signal.SIGKILL)
