"""Runs commands that list a large cluster without Python's garbage collector, which would search all listed objects."""

import argparse
import gc
from collections.abc import Callable
from functools import wraps

Run = Callable[[argparse.Namespace], int]


def uncollected(run: Run) -> Run:
    """Returns a command that runs `run` without garbage collection, unless --watch or --live is given.

    Listed objects are not garbage before the command ends, and to search them takes a fifth of its time. The collector
    is switched on after `run` has returned and its lists are freed, so that it does not search them. From then on it
    frees reference cycles; the commands `fit` and `why` leave some.
    """

    @wraps(run)
    def command(args: argparse.Namespace) -> int:
        if getattr(args, "watch", False) or getattr(args, "live", False) or not gc.isenabled():
            return run(args)
        gc.disable()
        try:
            return run(args)
        finally:
            gc.enable()

    return command
