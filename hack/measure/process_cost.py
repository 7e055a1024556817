"""Reads memory and CPU time of a process from proc(5)."""

import os
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")


def rss_mib(pid: int) -> float:
    """The resident memory of a process in MiB, from VmRSS of proc_pid_status(5)."""
    lines = Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmRSS:"))


def cpu_seconds(pid: int) -> float:
    """The user and system time of a process so far, from fields 14 and 15 of proc_pid_stat(5)."""
    after_name = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(after_name[11]) + int(after_name[12])) / _TICKS
