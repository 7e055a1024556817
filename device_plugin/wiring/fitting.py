"""Make the tables of placement policies in a process of its own, which is there only as long as that takes."""

import os
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context

from device_plugin.cluster.ports import FitError
from device_plugin.core.placement.columns import Kind
from device_plugin.core.placement.tables import Tables
from device_plugin.core.placement.target import Weighted

POLITENESS = 10


def tables(kinds: Sequence[Kind], supply: Sequence[int], asks: Sequence[Weighted]) -> Tables:
    """As Tables itself makes them. Raises FitError if the process cannot be had, or is killed."""
    try:
        with ProcessPoolExecutor(
            1, mp_context=get_context("spawn"), initializer=os.nice, initargs=(POLITENESS,)
        ) as pool:
            return pool.submit(Tables, kinds, supply, asks).result()
    except (BrokenProcessPool, OSError) as error:
        raise FitError(f"the process that makes the tables failed: {error}") from error
