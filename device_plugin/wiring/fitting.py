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
_PR_SET_PDEATHSIG = 1


def tables(kinds: Sequence[Kind], supply: Sequence[int], asks: Sequence[Weighted]) -> Tables:
    """As Tables itself makes them. Raises FitError if the process cannot be had, or is killed."""
    try:
        with ProcessPoolExecutor(
            1, mp_context=get_context("spawn"), initializer=_begin, initargs=(os.getpid(),)
        ) as pool:
            return pool.submit(Tables, kinds, supply, asks).result()
    except (BrokenProcessPool, OSError) as error:
        raise FitError(f"the process that makes the tables failed: {error}") from error


def _begin(service: int) -> None:
    """Be polite, and end with the service, however it ends: prctl(2). Else this process waits for it forever."""
    os.nice(POLITENESS)
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != service:
        os.kill(os.getpid(), signal.SIGKILL)
