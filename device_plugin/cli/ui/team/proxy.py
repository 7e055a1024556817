"""Logins by an authenticating proxy in front of the page, which sends the user's name and a secret in headers.

A request without the secret is refused. So are names that Kubernetes keeps for itself (system:…), because no proxy logs
in the cluster's own components, some of which may do everything.
"""

import hmac
from email.message import Message

from device_plugin.cli.ui.team.visitor import Person, groups_of, named

SECRET_HEADER = "X-Vgpu-Proxy-Secret"  # noqa: S105 - the name of a header
_RESERVED = "system:"
_EVERYBODY = "system:authenticated"


class ProxyLogin:
    """Reads the user in the headers of a proxy. Without `groups_header` a user is in no group of the proxy's."""

    def __init__(self, user_header: str, groups_header: str, secret: str) -> None:
        self._user_header = user_header
        self._groups_header = groups_header
        self._secret = secret.encode()

    def person(self, headers: Message) -> Person | None:
        """Returns the user that the proxy names; None if the request is not the proxy's, or names no user."""
        secrets, names = headers.get_all(SECRET_HEADER, []), headers.get_all(self._user_header, [])
        if (
            len(secrets) != 1
            or not hmac.compare_digest(secrets[0].encode("latin-1"), self._secret)
            or len(names) != 1
        ):
            return None
        try:
            texts = headers.get_all(self._groups_header, []) if self._groups_header else []
            groups = groups_of([_decoded(text) for text in texts])
            name = named(_decoded(names[0]).strip())
        except ValueError:
            return None
        if any(each.startswith(_RESERVED) for each in (name, *groups)):
            return None
        return Person(name, groups=tuple(sorted({*groups, _EVERYBODY})))


def _decoded(text: str) -> str:
    """Returns the value of a header as the proxy wrote it, in UTF-8. Raises ValueError for any other bytes."""
    return text.encode("latin-1").decode()
