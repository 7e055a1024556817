"""Idle slices: the time after which a slice counts as idle, for the commands, the alert and the boards alike.

The node's agent measures for how long a slice has neither computed nor allocated (node/checks/slice_history.py).
"""

IDLE_SECONDS = 30 * 60.0
