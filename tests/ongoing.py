"""A command of vgpu on a thread of this process, for tests that change what it looks at meanwhile."""

import io
import sys
import threading
from contextlib import redirect_stderr, redirect_stdout

from device_plugin.wiring.commands import main
from tests.deadline import eventually


class Ongoing:
    """One command. What it prints is there while it goes on, and printed once more at its end.

    pytest's own capture loses what is printed while it is read.
    """

    def __init__(self, *words: str) -> None:
        self.status = -1
        self._out, self._err = io.BytesIO(), io.BytesIO()
        self._words = list(words)
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        out, err = (io.TextIOWrapper(into, write_through=True) for into in (self._out, self._err))
        with redirect_stdout(out), redirect_stderr(err):
            self.status = main(self._words)
        # Otherwise their end closes what they write into.
        out.detach()
        err.detach()

    @property
    def out(self) -> str:
        return self._out.getvalue().decode()

    @property
    def err(self) -> str:
        return self._err.getvalue().decode()

    def says(self, text: str, seconds: float = 60) -> None:
        """Return once this was said on the standard error."""
        assert eventually(lambda: text in self.err, seconds), f"{text!r} was not said, but {self.err!r}"

    def prints(self, text: str, seconds: float = 60) -> None:
        """Return once the output ends with this."""
        assert eventually(lambda: self.out.endswith(text), seconds), (
            f"{text!r} was not printed, but {self.out!r}"
        )

    def end(self, seconds: float = 60) -> int:
        """The exit status, once it has ended."""
        self._thread.join(seconds)
        assert not self._thread.is_alive(), f"it has not ended, but said {self.err!r}"
        print(self.out, end="")
        print(self.err, end="", file=sys.stderr)
        return self.status
