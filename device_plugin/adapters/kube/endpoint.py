"""The address of the API server, and the credentials for it.

They come from a kubeconfig, else from a URL that is given, else from the service account of the pod we run in.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import urlsplit

from device_plugin.core.errors import VgpuError

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")


class EndpointError(VgpuError):
    """No usable address or credentials of the API server are configured; the text says what is wrong.

    Cure: correct the file, or name another with `--kubeconfig` and `--context`: `kubectl config get-contexts` lists
    contexts.
    """


@dataclass(frozen=True)
class Endpoint:
    """The address of an API server and the credentials for it. `ca`, `cert` and `key` are files.

    `authorization` returns the value of the Authorization header, and `headers` are sent in addition. The server's
    certificate must be for `name`; if that is None, for the host of `url`. The certificate is not checked if `verified`
    is false.
    """

    url: str
    authorization: Callable[[], str | None]
    ca: str | None = None
    cert: str | None = None
    key: str | None = None
    name: str | None = None
    verified: bool = True
    headers: tuple[tuple[str, str], ...] = ()

    def impersonating(self, user: str, groups: Sequence[str] = ()) -> "Endpoint":
        """The endpoint for requests in the name of another user, as `kubectl --as` makes them.

        Without `user` this endpoint itself is returned. Raises EndpointError.
        """
        if groups and not user:
            raise EndpointError("--as-group needs --as: write the user too")
        headers = [("Impersonate-User", user)] if user else []
        headers += [("Impersonate-Group", group) for group in groups]
        if bad := [value for _, value in headers if not (value.isascii() and value.isprintable())]:
            raise EndpointError(f"--as: {bad[0]!r} is no name: write printable ASCII characters")
        # Without a user, a user that the kubeconfig names stays.
        return replace(self, headers=tuple(headers)) if user else self


def from_settings(
    server: str, token_file: str, ca_file: str, kubeconfig: str, environ: Mapping[str, str] = os.environ
) -> Endpoint:
    """Returns the endpoint that the settings name, else the endpoint of the pod's service account.

    Raises EndpointError.
    """
    if kubeconfig:
        return from_kubeconfig(kubeconfig)
    if server:
        header = bearer(Path(token_file)) if token_file else nobody
        return Endpoint(api_address(server), header, ca_file or None)
    host, port = environ.get("KUBERNETES_SERVICE_HOST"), environ.get("KUBERNETES_SERVICE_PORT", "443")
    if not host:
        raise EndpointError("no API server: run as a pod, or give --kube-server or --kube-kubeconfig")
    address = f"[{host}]" if ":" in host else host
    return Endpoint(
        f"https://{address}:{port}", bearer(SERVICE_ACCOUNT / "token"), str(SERVICE_ACCOUNT / "ca.crt")
    )


def from_kubeconfig(path: str, context: str = "") -> Endpoint:
    """Returns the endpoint of a kubeconfig's `context`, or of its current context. Raises EndpointError."""
    # Imported here: a service with a service account does not need it.
    from device_plugin.adapters.kube import kubeconfig

    return kubeconfig.read(path, context).endpoint()


def context_namespace(path: str, context: str = "") -> str:
    """Returns the namespace of a kubeconfig's `context`, or of its current context; `default` if it names none.

    Raises EndpointError.
    """
    from device_plugin.adapters.kube import kubeconfig

    return kubeconfig.read(path, context).namespace


def api_address(url: str) -> str:
    """Returns the address of an API server without a slash at its end. Raises EndpointError for a malformed address."""
    try:
        parts = urlsplit(url)
        sound = parts.scheme in ("http", "https") and is_host(parts.hostname or "") and parts.port != 0
    except ValueError:  # the port is no number, or a bracket is missing
        sound = False
    if not sound or not url.isascii() or not url.isprintable() or " " in url:
        raise EndpointError(f"{url!r} is no address of an API server: write https://HOST:PORT")
    return url.rstrip("/")


def is_host(name: str) -> bool:
    """True if the text may be the name of a host."""
    try:
        return bool(name.encode("idna"))
    except UnicodeError:
        return False


def nobody() -> None:
    """Returns None, so that no Authorization header is sent: the server wants a certificate or no credentials."""


def bearer(file: Path) -> Callable[[], str]:
    """Returns a function that returns the header with the token in the file.

    The function reads the file again when the file has changed, because tokens rotate every hour, and keeps the last
    token if the file cannot be read. The function raises EndpointError if no token was ever read.
    """
    seen: list[tuple[int, str]] = []

    def header() -> str:
        try:
            changed = file.stat().st_mtime_ns
            if not seen or seen[-1][0] != changed:
                seen[:] = [(changed, "Bearer " + file.read_text(encoding="utf-8").strip())]
        except (OSError, ValueError) as error:
            if not seen:
                why = error.strerror if isinstance(error, OSError) else "it is not text"
                raise EndpointError(f"token file {file}: {why}") from error
        return seen[-1][1]

    return header
