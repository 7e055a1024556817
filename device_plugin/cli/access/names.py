"""Names of objects as people write them: NAME, KIND/NAME or NAMESPACE/NAME."""

import re
from collections.abc import Callable, Mapping
from typing import NamedTuple

from device_plugin.core.errors import VgpuError
from device_plugin.kube.api import Ref

# The forms of names in Kubernetes (RFC 1123); a generateName may end with a hyphen.
NAMESPACE = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
NAME = re.compile(r"[a-z0-9][-.a-z0-9]{0,252}")
FORM = "small letters, digits and hyphens"


class ObjectNameError(VgpuError):
    """The text names no object: it is empty, or has characters that no name in Kubernetes has."""


class Named(NamedTuple):
    """An object as a person names it; `kind` is empty if the person wrote no kind."""

    kind: str
    ref: Ref


def named(text: str, kinds: Mapping[str, str], namespace: Callable[[], str]) -> Named:
    """Returns the object that `text` names. `kinds` maps each word for a kind, such as `po`, to the kind.

    `namespace` is called if the text has no namespace, and returns the namespace. Raises ObjectNameError, and the
    errors of `namespace`.
    """
    first, slash, name = text.rpartition("/")
    if not name or (slash and not first):
        forms = ("NAMESPACE/NAME", *(f"{kind}/NAME" for kind in sorted({*kinds.values()})))
        raise ObjectNameError(
            f"{text!r} names nothing: write NAME{', ' if kinds else ' or '}{' or '.join(forms)}"
        )
    if not NAME.fullmatch(name):
        raise ObjectNameError(f"{name!r} is no name in Kubernetes: write {FORM}")
    kind = kinds.get(first, "")
    return Named(kind, Ref(name, checked_namespace(first) if first and not kind else namespace()))


def checked_namespace(name: str) -> str:
    """Returns the name of a namespace. Raises ObjectNameError if it is malformed."""
    if not NAMESPACE.fullmatch(name):
        raise ObjectNameError(f"{name!r} is no name of a namespace: write {FORM}")
    return name
