"""`vgpu mount-writable`: mount the node's tmpfs for the files that containers may write.

    vgpu mount-writable --state-dir /var/lib/vgpu --containers 256

The tmpfs is exactly as large as the usage regions (files of counters) and progress files of this number of containers,
and the agent fills it, so that no container can make its files longer. A tmpfs that is already there stays as it is, or
grows. The command needs the privilege to mount. If it cannot mount, it logs why, and the agent keeps these files on the
node's disk.
"""

import argparse
import logging
import os
from pathlib import Path

from device_plugin.adapters import mounts
from device_plugin.core.errors import VgpuError
from device_plugin.node.slices.writable import CONTAINER_BYTES, FOLDER, KINDS, MOST_CONTAINERS, room

log = logging.getLogger(__name__)

DEFAULT_CONTAINERS = 256


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments for the folder and the number of containers."""
    parser.add_argument(
        "--state-dir",
        metavar="FOLDER",
        default="/var/lib/vgpu",
        help="stateDir of the agent (default: %(default)s)",
    )
    parser.add_argument(
        "--containers", metavar="N", type=int, default=DEFAULT_CONTAINERS,
        help="containers with slices on this node, at most; each takes 40 KiB of memory (default: %(default)s)",
    )  # fmt: skip


def run(args: argparse.Namespace) -> int:
    """Mount the tmpfs or log why not; returns 0, so that the agent starts. Raises VgpuError for bad arguments."""
    if not 1 <= args.containers <= MOST_CONTAINERS:
        raise VgpuError(f"--containers {args.containers}: write 1 to {MOST_CONTAINERS}")
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    folder = Path(args.state_dir) / FOLDER
    try:
        log.info("%s", mounted(folder, args.containers))
    except OSError as error:
        log.error(  # noqa: TRY400 - the trace says no more
            "no tmpfs at %s: %s. The agent keeps usage regions and progress files on the node's disk",
            folder,
            error,
        )
    return 0


def mounted(folder: Path, containers: int) -> str:
    """Mount or enlarge the tmpfs for the files of `containers`; returns a text for the log. Raises OSError."""
    folder.mkdir(parents=True, exist_ok=True)
    before = room(folder)
    if before >= containers:
        return f"{folder} is mounted, for the files of {before} containers"
    # Twice the inodes: a removed file keeps its inode while a process has it open.
    inodes = 1 + 2 * len(KINDS) * containers
    mounts.tmpfs(folder, containers * CONTAINER_BYTES, inodes, again=os.path.ismount(folder))
    return f"{folder} is mounted now, for the files of {containers} containers"
