"""The reference page of the alerts, generated from their declarations."""

from hack.generate.monitoring.alerts import ALERTS
from hack.generate.reference import tables


def page() -> str:
    """The page: every alert with its severity and its cause."""
    return tables.page(
        "Alerts",
        "`hack/generate/monitoring/alerts.py`",
        "[Monitoring](../monitoring.md) says how to install them. The page of each alert says what to look at and what"
        " to do.",
        tables.table(
            ("alert", "severity", "fires when"),
            (
                (
                    f"[{alert.name}](../alerts/{alert.page.rpartition('/')[2]})",
                    alert.severity.value,
                    alert.cause.format(time=alert.time),
                )
                for alert in ALERTS
            ),
        ),
    )
