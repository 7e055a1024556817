"""Exit statuses of commands, as in shells and kubectl: 0, 1 for the answer "no", and the constants below."""

ERROR = 2
"""The command failed, and printed the reason."""
INTERRUPTED, UNREAD = 130, 141
"""Ctrl-C ended the command, or nobody reads its output any more: 128 plus the number of the signal."""
