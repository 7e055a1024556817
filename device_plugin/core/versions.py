"""Versions of Kubernetes and of container runtimes, and the least one of Kubernetes that is supported."""

import re

LEAST_KUBERNETES = (1, 31)


def minor_version(text: str) -> tuple[int, int] | None:
    """`(1, 36)` of `v1.36.3`; None for what is no version."""
    match = re.match(r"v?(\d{1,9})\.(\d{1,9})", text)
    return (int(match[1]), int(match[2])) if match else None
