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
    of_grafana = {"rate_interval": rate_interval, "range": "1h", "interval": "5s", "interval_ms": "5000"}
    query = re.sub(r"\$__(\w+)", lambda found: of_grafana[found[1]], query)
    return re.sub(r"\$[a-z]+\b", ".*", query)


def metrics_in(text: str) -> set[str]:
    """The names of our metrics and of recording rules in a text."""
    return set(re.findall(r"\bvgpu[_:][a-z_:]+[a-z]", text))
