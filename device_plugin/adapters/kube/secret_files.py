"""Certificates and keys that are known as data, as files for the TLS library, which reads nothing else."""

import atexit
import os
from pathlib import Path
from tempfile import mkstemp


def secret_file(content: bytes) -> str:
    """A file with this content that only its owner can read, until the program ends."""
    handle, name = mkstemp(prefix="vgpu-")
    atexit.register(Path(name).unlink, missing_ok=True)
    with os.fdopen(handle, "wb") as file:
        file.write(content)
    return name
