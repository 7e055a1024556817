"""PATCH bodies: JSON merge patch (RFC 7386), and strategic merge patches that a merge patch can express."""

from typing import Any

from hack.embedded.apiserver import errors

MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"


def apply(content_type: str, value: dict[str, Any], body: dict[str, Any]) -> dict[str, Any]:
    """`value` with the patch `body` applied; `value` must be the caller's own, and may be changed.

    Raises StatusError 415 for another format, and for a strategic patch that holds a list or a directive, because
    those need the merge keys of the kind.
    """
    if content_type not in (MERGE, STRATEGIC):
        raise errors.unsupported_media_type()
    if content_type == STRATEGIC and not _is_plain(body):
        error = errors.unsupported_media_type()
        why = f"{error} (no lists in strategic merge patches here: send {MERGE})"
        raise errors.StatusError(error.code, error.reason, why)
    _merge(value, body)
    return value


def _merge(value: dict[str, Any], patch: dict[str, Any]) -> None:
    for key, change in patch.items():
        if change is None:
            value.pop(key, None)
        elif isinstance(change, dict):
            if not isinstance(value.get(key), dict):
                value[key] = {}
            _merge(value[key], change)
        else:
            value[key] = change


def _is_plain(patch: object) -> bool:
    if isinstance(patch, dict):
        return all(not key.startswith("$") and _is_plain(item) for key, item in patch.items())
    return not isinstance(patch, list)
