"""Making room: who must leave a card so that somebody else fits. Only plans are made here; nothing is held or freed."""

from device_plugin.core.room.defragment import defragment
from device_plugin.core.room.plan import Move, Plan, Ranked
from device_plugin.core.room.planner import Planner

__all__ = ["Move", "Plan", "Planner", "Ranked", "defragment"]
