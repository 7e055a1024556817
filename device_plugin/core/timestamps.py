"""Reads times that Kubernetes wrote."""

from datetime import datetime


def seconds(time: str, otherwise: float) -> float:
    """The seconds since 1970 of a time that Kubernetes wrote; `otherwise` if the text is empty or not readable.

    A year of more than four digits is not readable; the end of a pod with a very long grace period can be in such a
    year.
    """
    try:
        return datetime.fromisoformat(time).timestamp() if time else otherwise
    except ValueError:
        return otherwise
