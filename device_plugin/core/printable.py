"""Texts for a terminal: what a tenant wrote must not move its cursor, colour it, or turn its direction."""

_SHOWN = "\N{REPLACEMENT CHARACTER}"


def printable(text: str) -> str:
    """The text with every control character and invisible one replaced, line breaks too."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else _SHOWN for each in text)


def one_line(text: str) -> str:
    """The text in one line: a space for every run of white space, control characters and invisible ones."""
    return " ".join("".join(each if each.isprintable() else " " for each in text).split())
