"""Files that come and go while a test looks."""

import glob
from pathlib import Path


def found(folder: Path, pattern: str) -> list[Path]:
    """What matches now, hidden files included. Path.glob of Python 3.11 fails where a folder goes meanwhile."""
    return [Path(path) for path in glob.glob(str(folder / pattern), recursive=True, include_hidden=True)]  # noqa: PTH207
