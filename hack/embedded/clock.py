"""Time as Kubernetes writes it."""

from datetime import UTC, datetime, timedelta


def timestamp(ahead_seconds: int = 0) -> str:
    """Now, or `ahead_seconds` from now, as RFC 3339 in UTC and whole seconds."""
    moment = datetime.now(UTC) + timedelta(seconds=ahead_seconds)
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")
