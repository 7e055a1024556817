"""Exit statuses of commands, as shells and kubectl have them: 0, 1 for an answer of "no", and these."""

ERROR = 2
"""The command failed, and says why."""
INTERRUPTED, UNREAD = 130, 141
"""Ctrl-C ended it, or nobody reads its output any more: 128 and the number of the signal."""
