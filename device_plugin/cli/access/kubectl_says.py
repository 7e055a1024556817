"""Makes one sentence for people from kubectl's stderr, without the lines of its log."""

import logging
import re

from device_plugin.core.printable import one_line

log = logging.getLogger(__name__)

# klog's header: `E1124 05:52:49.464210   30475 memcache.go:265] "Unhandled Error" err="..."`.
_LOG_LINE = re.compile(r"[IWEF]\d{4} \d\d:\d\d:\d\d\.\d+ +\d+ [^\]]*\] ?(.*)")
_ERR = re.compile(r'\berr="((?:[^"\\]|\\.)*)"')
_ERROR = re.compile(r"error: ", re.IGNORECASE)
MOST_CHARACTERS = 1024


def last_sentence(said: str) -> str:
    """Returns the last line of kubectl's stderr that is not a line of its log; empty if stderr is empty.

    If all lines are from the log, returns the message of the last line. Every line is logged for --verbose.
    """
    lines = [line for each in said.splitlines() if (line := one_line(each))]
    for line in lines:
        log.debug("kubectl: %s", line)
    plain = [line for line in lines if not _LOG_LINE.fullmatch(line)]
    last = plain[-1] if plain else _logged(lines[-1]) if lines else ""
    return _ERROR.sub("", last, count=1)[:MOST_CHARACTERS] if _ERROR.match(last) else last[:MOST_CHARACTERS]


def _logged(line: str) -> str:
    """Returns the message of a line of kubectl's log.

    If the message has a field `err`, returns only the text of this field.
    """
    found = _LOG_LINE.fullmatch(line)
    text = found[1] if found else line
    error = _ERR.search(text)
    return error[1].replace('\\"', '"') if error else text
