"""Properties of the terminal that a command prints to: its width, and whether colours and block characters are shown.

Only terminals get colours, and only where NO_COLOR is not set and TERM is not `dumb`. No meaning is in a colour alone.
"""

import os
import shutil
from dataclasses import dataclass
from textwrap import wrap
from typing import TextIO

RESET = "\x1b[0m"
BOLD, DIM, RED, GREEN, YELLOW, CYAN = (f"\x1b[{code}m" for code in (1, 2, 31, 32, 33, 36))
# Shares of a whole from which its bar is yellow, and red.
HIGH, FULL = 0.7, 0.9


BLOCKS, ASCII = "\N{FULL BLOCK}\N{MEDIUM SHADE}\N{LIGHT SHADE}", "#=."
"""The characters of a bar: its used part, the rest of its filled part, and its empty part."""


def load_style(share: float) -> str:
    """Returns the colour of a bar that shows the taken share of a whole: green, yellow, or red."""
    return RED if share >= FULL else YELLOW if share >= HIGH else GREEN


@dataclass(frozen=True, slots=True)
class Terminal:
    """The output of a command. `width` is 0 if it is no terminal: then nothing is cut or broken into lines."""

    width: int = 0
    colour: bool = False
    letters: str = BLOCKS

    @classmethod
    def of(cls, out: TextIO) -> "Terminal":
        """Returns the width of `out`, whether to write colours, and the characters for bars that its encoding has."""
        letters = BLOCKS
        try:
            letters.encode(out.encoding or "ascii")
        except UnicodeEncodeError:
            letters = ASCII
        if not out.isatty():
            return cls(letters=letters)
        colour = "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb"
        return cls(shutil.get_terminal_size().columns, colour, letters)

    def painted(self, text: str, style: str) -> str:
        """Returns the text in a style such as BOLD; unchanged if the output shows no colours."""
        return f"{style}{text}{RESET}" if self.colour and text and style else text

    def bar(self, share: float, length: int, style: str = CYAN, used: float | None = None) -> str:
        """Returns a bar of this length; it is full only for a share of 1, and empty only for 0.

        `used` is the share of the whole that is in use. If it is known, the filled part beyond it is lighter.
        """
        filled = _letters(share, length)
        solid = filled if used is None else min(_letters(used, length), filled)
        full, lighter, empty = tuple(self.letters)
        drawn = self.painted(full * solid + lighter * (filled - solid), style)
        return drawn + self.painted(empty * (length - filled), DIM)

    def moving_bar(self, step: int, length: int) -> str:
        """Returns a bar for work of unknown size: a block moves to and fro, one character each step."""
        block = max(length // 5, 1)
        way = max(length - block, 1)
        at = way - abs(step % (2 * way) - way)
        full, _, empty = tuple(self.letters)
        parts = ((empty * at, DIM), (full * block, CYAN), (empty * (length - at - block), DIM))
        return "".join(self.painted(part, style) for part, style in parts)

    def wrapped(self, text: str, indent: int = 0, more: int = 4) -> list[str]:
        """Returns the text in lines of the terminal's width.

        The first line is indented by `indent` characters, and the others by `more` characters more. A word that is
        longer than a line stays whole, because people copy it.
        """
        first = " " * indent
        if not self.width or len(text) + indent <= self.width:
            return [f"{first}{text}"]
        return wrap(
            text, self.width, initial_indent=first, subsequent_indent=" " * min(indent + more, self.width // 2),
            break_on_hyphens=False, break_long_words=False,
        )  # fmt: skip


def _letters(share: float, length: int) -> int:
    """Returns the number of full characters of a bar for a share: all of them only for 1, and none only for 0."""
    return length if share >= 1 else min(max(round(share * length), share > 0), length - 1)
