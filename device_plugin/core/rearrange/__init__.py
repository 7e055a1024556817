"""Rearrangement: plan which pods leave a card so that another pod fits. Plans hold and free nothing."""

from device_plugin.core.rearrange.defragment import defragment
from device_plugin.core.rearrange.fewest import Ranks
from device_plugin.core.rearrange.plan import Move, Plan, Ranked
from device_plugin.core.rearrange.planner import Option, Planner, ordered, size

__all__ = ["Move", "Option", "Plan", "Planner", "Ranked", "Ranks", "defragment", "ordered", "size"]
