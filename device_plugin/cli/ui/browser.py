"""Opens the page in the browser without its token on a command line, which every user of the machine can read.

The browser gets a file that only its user can read, and that redirects to the address.
"""

import html
import os
import webbrowser
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

_PAGE = '<!doctype html><meta charset="utf-8"><meta http-equiv="refresh" content="0;url={0}"><a href="{0}">vgpu</a>\n'


@contextmanager
def opened(address: str) -> Iterator[bool]:
    """Open the address; yields true if a browser was found. The file exists until the context ends."""
    with TemporaryDirectory(prefix="vgpu-ui-") as folder:
        file = Path(folder) / "page.html"
        handle = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "w", encoding="utf-8") as written:
            written.write(_PAGE.format(html.escape(address)))
        yield webbrowser.open(file.as_uri())
