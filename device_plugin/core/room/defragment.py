"""Defragmentation: which few pods to move so that those that wait fit, and so that what is free is of more use."""

from collections.abc import Mapping, Sequence

from device_plugin.core.room.improvements import Improvements
from device_plugin.core.room.openings import Openings
from device_plugin.core.room.plan import Plan, Ranked
from device_plugin.core.room.planner import Planner


def defragment(
    planner: Planner, waiting: Sequence[Ranked], holders: Mapping[str, Ranked], most: int
) -> tuple[Plan, ...]:
    """The steps, each to be taken after those before it; together they move at most `most` of the pods in `holders`.

    First openings for the pods that wait, as long as there are any, then improvements. No pod is moved twice. A step
    without moves places a pod that fits after the steps before it.
    """
    with planner.trial.attempt():
        steps = list(Openings(planner, waiting, holders).steps(most))
        moved = {move.source.pod for step in steps for move in step.moves}
        rest = {pod: holder for pod, holder in holders.items() if pod not in moved}
        steps += Improvements(planner, rest).steps(most - len(moved))
    return tuple(steps)
