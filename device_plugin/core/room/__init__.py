"""Making room: who must leave a card so that somebody else fits. Only plans are made here; nothing is held or freed."""

from device_plugin.core.room.defragment import defragment
from device_plugin.core.room.fewest import Ranks
from device_plugin.core.room.plan import Move, Plan, Ranked
from device_plugin.core.room.planner import Option, Planner, ordered, size

__all__ = ["Move", "Option", "Plan", "Planner", "Ranked", "Ranks", "defragment", "ordered", "size"]
