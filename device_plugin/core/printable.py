"""Safe texts for a terminal: a tenant's text must not move the cursor, set colours, or reverse the direction."""

_SHOWN = "\N{REPLACEMENT CHARACTER}"


def printable(text: str) -> str:
    """The text with a replacement for every control character, line break and invisible character."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else _SHOWN for each in text)


def one_line(text: str) -> str:
    """The text in one line: each run of white space, control and invisible characters becomes one space."""
    return " ".join("".join(each if each.isprintable() else " " for each in text).split())
