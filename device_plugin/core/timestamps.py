"""Times as Kubernetes writes them."""

from datetime import datetime


def seconds(time: str, otherwise: float) -> float:
    """A time as Kubernetes writes it, in seconds since 1970; `otherwise` where there is none that can be read.

    A pod with a long enough grace period is deleted in a year of more than four digits.
    """
    try:
        return datetime.fromisoformat(time).timestamp() if time else otherwise
    except ValueError:
        return otherwise
