"""A command that lists a large cluster runs without the garbage collector, which would search all that is listed."""

import argparse
import gc
from collections.abc import Callable
from functools import wraps

Run = Callable[[argparse.Namespace], int]


def uncollected(run: Run) -> Run:
    """The command `run` with the garbage collector off until it returns; with --watch, which has no end, it stays on.

    Nothing of what is listed is garbage before the end, and searching it takes a fifth of the command's time. The
    collector is switched on again after `run` has returned, when its lists are freed: otherwise it would search them
    then. Reference cycles, as in fit and why, are freed then instead of at the end of the process.
    """

    @wraps(run)
    def command(args: argparse.Namespace) -> int:
        if getattr(args, "watch", False) or not gc.isenabled():
            return run(args)
        gc.disable()
        try:
            return run(args)
        finally:
            gc.enable()

    return command
