"""Version numbers of Kubernetes and of container runtimes, and the oldest Kubernetes that is supported."""

import re

LEAST_KUBERNETES = (1, 31)


def minor_version(text: str) -> tuple[int, int] | None:
    """The major and the minor number of a version, `(1, 36)` for `v1.36.3`; None for any other text."""
    match = re.match(r"v?(\d{1,9})\.(\d{1,9})", text)
    return (int(match[1]), int(match[2])) if match else None
