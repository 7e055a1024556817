"""`vgpu copy-library`: copy the library into a folder, for the pod in which `vgpu check --image` tests an image.

    vgpu copy-library --to /files

The folder also gets vgpu-loads, and an ld.so.preload that names the library at its path in a container with a slice.
The init container of that pod runs this command, in the product's image.
"""

import argparse
import shutil
from pathlib import Path

from device_plugin.core.errors import VgpuError
from vgpu_runtime.paths import CONTAINER_LIBRARY, CONTAINER_PRELOAD, LIBRARY, LOADS


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the argument for the folder."""
    parser.add_argument("--to", metavar="FOLDER", required=True, help="a folder that exists")


def run(args: argparse.Namespace) -> int:
    """Copy the library and vgpu-loads into the folder, and write ld.so.preload there; returns 0.

    Raises VgpuError if a file cannot be copied.
    """
    folder = Path(args.to)
    try:
        for file in (LIBRARY, LOADS):
            shutil.copy(file, folder)
            (folder / file.name).chmod(0o755)
        (folder / Path(CONTAINER_PRELOAD).name).write_text(f"{CONTAINER_LIBRARY}\n", encoding="utf-8")
    except OSError as error:
        raise VgpuError(
            f"the library cannot be copied to {folder} ({error}): write --to with a folder that exists"
        ) from error
    return 0
