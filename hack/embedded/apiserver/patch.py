"""PATCH bodies: JSON merge patch (RFC 7386), and strategic merge patches of maps, conditions and finalizers."""

from typing import Any

from hack.embedded.apiserver import errors

MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
# The lists that a strategic patch may hold, and the key that identifies a member; without a key the members are texts.
_KEYS = {"conditions": "type", "finalizers": ""}


def apply(content_type: str, value: dict[str, Any], body: dict[str, Any]) -> dict[str, Any]:
    """Return `value` with the patch `body` applied; `value` may be changed, so it must not be shared.

    Raises StatusError 415 for another format, and for a strategic patch that has a directive or a list without a merge
    key in _KEYS.
    """
    if content_type not in (MERGE, STRATEGIC):
        raise errors.unsupported_media_type()
    if content_type == STRATEGIC and not _is_plain(body):
        error = errors.unsupported_media_type()
        lists = ", ".join(_KEYS)
        why = f"{error} (of lists only {lists} in strategic merge patches here: send {MERGE})"
        raise errors.StatusError(error.code, error.reason, why)
    _merge(value, body, _KEYS if content_type == STRATEGIC else {})
    return value


def _merge(value: dict[str, Any], patch: dict[str, Any], keys: dict[str, str]) -> None:
    for key, change in patch.items():
        if change is None:
            value.pop(key, None)
        elif isinstance(change, dict):
            if not isinstance(value.get(key), dict):
                value[key] = {}
            _merge(value[key], change, keys)
        elif key in keys:
            value[key] = _merged(value.get(key) or [], change, keys[key])
        else:
            value[key] = change


def _merged(members: list[Any], changes: list[Any], key: str) -> list[Any]:
    if not key:
        return [*members, *(each for each in changes if each not in members)]
    found = {member[key]: member for member in members}
    for change in changes:
        _merge(found.setdefault(change[key], {}), change, {})
    return list(found.values())


def _is_plain(patch: object) -> bool:
    if isinstance(patch, dict):
        return all(not key.startswith("$") and _is_member(key, item) for key, item in patch.items())
    return not isinstance(patch, list)


def _is_member(key: str, item: object) -> bool:
    if key in _KEYS and isinstance(item, list):
        if not _KEYS[key]:
            return all(isinstance(each, str) for each in item)
        return all(isinstance(each, dict) and _KEYS[key] in each and _is_plain(each) for each in item)
    return _is_plain(item)
