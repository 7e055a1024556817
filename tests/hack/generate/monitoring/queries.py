"""All queries of the boards and of the rules."""

import re
from collections.abc import Iterator

from hack.generate.monitoring.alerts import ALERTS
from hack.generate.monitoring.boards import BOARDS
from hack.generate.monitoring.rules import recording_rules


def queries() -> Iterator[str]:
    """Of boards, of recording rules and of alerts, in this order."""
    yield from (query.expr for board in BOARDS for panel in board.panels() for query in panel.queries)
    yield from (rule.expr for rule in recording_rules())
    yield from (alert.expr for alert in ALERTS)


def runnable(query: str, rate_interval: str = "1m") -> str:
    """The query with everything chosen, as Grafana sends it to Prometheus."""
    return re.sub(r"\$[a-z]+\b", ".*", query.replace("$__rate_interval", rate_interval))


def metrics_in(text: str) -> set[str]:
    """The names of our metrics and of recording rules in a text."""
    return set(re.findall(r"\bvgpu[_:][a-z_:]+[a-z]", text))
