"""Writes certificates and keys into temporary files for the TLS library, which reads nothing but files."""

import atexit
import os
from pathlib import Path
from tempfile import mkstemp


def secret_file(content: bytes) -> str:
    """Write a file that only its owner can read and that is removed when the program ends; returns its path."""
    handle, name = mkstemp(prefix="vgpu-")
    atexit.register(Path(name).unlink, missing_ok=True)
    with os.fdopen(handle, "wb") as file:
        file.write(content)
    return name
