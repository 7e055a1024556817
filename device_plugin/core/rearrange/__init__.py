"""Rearrangement: plans which pods leave their cards so that another pod fits. The ledger is not changed."""

from device_plugin.core.rearrange.defragment import defragment
from device_plugin.core.rearrange.fewest import Ranks
from device_plugin.core.rearrange.planner import Move, MovePlan, Option, Planner, Ranked, size

__all__ = ["Move", "MovePlan", "Option", "Planner", "Ranked", "Ranks", "defragment", "size"]
