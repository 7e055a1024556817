"""The status of a ResourceClaim: the devices that it was given, and the pods that may use them.

Model: k8s.io/kubernetes 1.36 pkg/apis/resource/validation. Only syntax is checked there too: a device that does not
exist, or more capacity than a card has, is accepted.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Any

from hack.embedded.apiserver.errors import Cause
from hack.embedded.apiserver.strategies import NAME, NAME_RULE, Object

MAX_RESULTS, MAX_RESERVED = 32, 256
_LABEL = re.compile("[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_LABEL_RULE = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with"
    " an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is"
    " '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
_HEX = "[0-9a-fA-F]"
_UUID = re.compile(f"{_HEX}{{8}}-{_HEX}{{4}}-{_HEX}{{4}}-{_HEX}{{4}}-{_HEX}{{12}}")


def results(status: Object) -> Sequence[Any]:
    """The devices in a status; none without an allocation."""
    return ((status.get("allocation") or {}).get("devices") or {}).get("results") or ()


def written(status: Object) -> Object:
    """The status as it is stored: with its known fields only, and without empty ones."""
    kept = {key: status[key] for key in ("devices", "reservedFor") if status.get(key)}
    if status.get("allocation") is not None:
        kept["allocation"] = {"devices": {}, **status["allocation"]}
    return kept


def causes(new: Object, old: Object) -> Iterator[Cause]:
    """The faults of the status of a ResourceClaim `new` that was `old`."""
    status, was = new.get("status") or {}, old.get("status") or {}
    yield from _reserved(status, was, deleted="deletionTimestamp" in old["metadata"])
    allocation = status.get("allocation")
    if allocation is None or allocation == was.get("allocation"):
        return
    if was.get("allocation") is not None:
        yield Cause("status.allocation", "Invalid value: {…}: field is immutable")
        return
    if len(results(status)) > MAX_RESULTS:
        yield _too_many("status.allocation.devices.results", len(results(status)), MAX_RESULTS)
        return
    names = set(_request_names(new))
    for index, result in enumerate(results(status)):
        yield from _result(result, f"status.allocation.devices.results[{index}]", names)
    selector = allocation.get("nodeSelector")
    if selector is not None and not selector.get("nodeSelectorTerms"):
        where = "status.allocation.nodeSelector.nodeSelectorTerms"
        yield _required(where, ": must have at least one node selector term")


def _reserved(status: Object, was: Object, *, deleted: bool) -> Iterator[Cause]:
    """The faults of reservedFor, which must not grow while the ResourceClaim is being deleted."""
    where, reserved = "status.reservedFor", status.get("reservedFor") or []
    if len(reserved) > MAX_RESERVED:
        yield _too_many(where, len(reserved), MAX_RESERVED)
    seen: set[str] = set()
    for index, consumer in enumerate(reserved):
        for key in ("resource", "name", "uid"):
            if not consumer.get(key):
                yield _required(f"{where}[{index}].{key}")
        uid = consumer.get("uid", "")
        if uid in seen:
            yield Cause(f"{where}[{index}]", f'Duplicate value: "{uid}"', "FieldValueDuplicate")
        seen.add(uid)
    if reserved and status.get("allocation") is None:
        yield _forbidden(where, "may not be specified when `allocated` is not set")
    elif deleted and any(consumer not in (was.get("reservedFor") or ()) for consumer in reserved):
        yield _forbidden(
            where,
            "new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set",
        )


def _request_names(claim: Object) -> Iterator[str]:
    """The names that a result may refer to: of requests, and of their alternatives as `request/alternative`."""
    for request in ((claim.get("spec") or {}).get("devices") or {}).get("requests") or ():
        yield request["name"]
        for one in request.get("firstAvailable") or ():
            yield f"{request['name']}/{one['name']}"


def _result(result: Object, where: str, names: set[str]) -> Iterator[Cause]:
    request, pool = result.get("request", ""), result.get("pool", "")
    yield from _label(request.partition("/")[0], f"{where}.request")
    if request not in names:
        message = (
            f'Invalid value: "{request}": must be the name of a request in the claim or the name of a request and a'
            " subrequest separated by '/'"
        )
        yield Cause(f"{where}.request", message)
    if not result.get("driver"):
        yield _required(f"{where}.driver")
    if not pool:
        yield _required(f"{where}.pool")
    elif not all(NAME.fullmatch(part) for part in pool.split("/")):
        yield Cause(f"{where}.pool", f'Invalid value: "{pool}": {NAME_RULE}')
    yield from _label(result.get("device", ""), f"{where}.device")
    if "shareID" in result:
        yield from _share(result["shareID"], f"{where}.shareID")


def _label(text: str, where: str) -> Iterator[Cause]:
    if not _LABEL.fullmatch(text):
        yield Cause(where, f'Invalid value: "{text}": {_LABEL_RULE}')


def _share(text: str, where: str) -> Iterator[Cause]:
    if len(text) != len("xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx"):
        yield Cause(where, f'Invalid value: "{text}": error validating uid: invalid UUID length: {len(text)}')
    elif not _UUID.fullmatch(text):
        yield Cause(where, f'Invalid value: "{text}": error validating uid: invalid UUID format')
    elif text != text.lower():
        message = (
            f'Invalid value: "{text}": uid must be in RFC 4122 normalized form, `xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx`'
            " with lowercase hexadecimal characters"
        )
        yield Cause(where, message)


def _too_many(where: str, count: int, most: int) -> Cause:
    return Cause(where, f"Too many: {count}: must have at most {most} items", "FieldValueTooMany")


def _required(where: str, more: str = "") -> Cause:
    return Cause(where, f"Required value{more}", "FieldValueRequired")


def _forbidden(where: str, why: str) -> Cause:
    return Cause(where, f"Forbidden: {why}", "FieldValueForbidden")
