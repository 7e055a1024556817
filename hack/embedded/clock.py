"""Times in Kubernetes' format."""

from datetime import UTC, datetime, timedelta


def timestamp(ahead_seconds: int = 0) -> str:
    """The time in `ahead_seconds` from now, as RFC 3339 in UTC and whole seconds."""
    moment = datetime.now(UTC) + timedelta(seconds=ahead_seconds)
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")
