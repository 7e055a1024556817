"""The address of the API server, and the credentials for it.

They come from a kubeconfig, else from a URL that is given, else from the service account of the pod we run in.
"""

import logging
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import urlsplit

from device_plugin.core.errors import VgpuError

log = logging.getLogger(__name__)

# Most contexts that an error names.
MOST_CONTEXTS = 16
SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")


class EndpointError(VgpuError):
    """No address of the API server is configured; the text tells how to configure one.

    Cure: correct the file, or name another with `--kubeconfig` and `--context`: `kubectl config get-contexts` lists
    contexts.
    """


@dataclass(frozen=True)
class Endpoint:
    """The address of an API server and the credentials for it. `ca`, `cert` and `key` are files.

    `authorization` returns the header of each request, and `headers` are sent with each beside it. The server's
    certificate must be for `name`, or else for the host of `url`; it is not checked unless `verified`.
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
        """The endpoint for requests in the name of another user, as `kubectl --as` makes them. Raises EndpointError."""
        if groups and not user:
            raise EndpointError("--as-group needs --as: write the user too")
        headers = [("Impersonate-User", user)] if user else []
        headers += [("Impersonate-Group", group) for group in groups]
        if bad := [value for _, value in headers if not (value.isascii() and value.isprintable())]:
            raise EndpointError(f"--as: {bad[0]!r} is no name: write printable ASCII characters")
        return replace(self, headers=tuple(headers))


def from_settings(
    server: str, token_file: str, ca_file: str, kubeconfig: str, environ: Mapping[str, str] = os.environ
) -> Endpoint:
    """The endpoint that the settings name, else the pod's own. Raises EndpointError."""
    if kubeconfig:
        return from_kubeconfig(kubeconfig)
    if server:
        return Endpoint(
            server.rstrip("/"), _bearer(Path(token_file)) if token_file else _nobody, ca_file or None
        )
    host, port = environ.get("KUBERNETES_SERVICE_HOST"), environ.get("KUBERNETES_SERVICE_PORT", "443")
    if not host:
        raise EndpointError("no API server: run as a pod, or give --kube-server or --kube-kubeconfig")
    address = f"[{host}]" if ":" in host else host
    return Endpoint(
        f"https://{address}:{port}", _bearer(SERVICE_ACCOUNT / "token"), str(SERVICE_ACCOUNT / "ca.crt")
    )


def from_kubeconfig(path: str, context: str = "") -> Endpoint:
    """The endpoint of a context of a kubeconfig, else of its current one. Raises EndpointError."""
    # Imported here: with a service account neither this is needed, nor the library with its 126 MB on disk.
    from device_plugin.adapters.kube.kubeconfig import read_plain

    if (plain := read_plain(path, context)) is not None:
        try:
            return plain.endpoint()
        except ValueError as error:
            raise EndpointError(f"kubeconfig {path}: {error}") from error
    try:
        from kubernetes import config
        from kubernetes.client import Configuration
    except ImportError:
        raise EndpointError(
            f"kubeconfig {path}: to read it, run pip install '.[cli]' in a checkout of vgpu"
        ) from None
    from yaml import YAMLError

    _check_context(path, context)

    loaded = Configuration()
    try:
        config.load_kube_config(  # type: ignore[no-untyped-call]
            path, context=context or None, client_configuration=loaded, persist_config=False
        )
        urlsplit(loaded.host).port  # noqa: B018 - raises ValueError for what is no port
    except (YAMLError, UnicodeDecodeError):
        raise EndpointError(f"kubeconfig {path}: not YAML") from None
    except (TypeError, AttributeError, ValueError) as error:  # by the library, for other YAML
        raise EndpointError(f"kubeconfig {path}: no kubeconfig ({error})") from error
    except (config.ConfigException, OSError) as error:
        raise EndpointError(f"kubeconfig {path}: {error}") from error
    if not loaded.verify_ssl:
        log.warning(
            "kubeconfig %s: insecure-skip-tls-verify: whoever answers at %s is believed", path, loaded.host
        )
    return Endpoint(
        loaded.host.rstrip("/"),
        lambda: loaded.get_api_key_with_prefix("BearerToken", alias="authorization"),
        loaded.ssl_ca_cert,
        loaded.cert_file,
        loaded.key_file,
        loaded.tls_server_name,
        loaded.verify_ssl,
    )


def context_namespace(path: str, context: str = "") -> str:
    """The namespace of a context of a kubeconfig, else of its current one; `default` if it names none.

    Raises EndpointError.
    """
    from device_plugin.adapters.kube.kubeconfig import read_plain

    if (plain := read_plain(path, context)) is not None:
        return plain.namespace
    _check_context(path, context)
    from kubernetes import config

    try:
        contexts, current = config.list_kube_config_contexts(path)  # type: ignore[no-untyped-call]
    except (config.ConfigException, OSError) as error:
        raise EndpointError(f"kubeconfig {path}: {error}") from error
    if context:
        current = next(each for each in contexts if each["name"] == context)
    return str(current["context"].get("namespace") or "default")


def _check_context(path: str, context: str) -> None:
    """Raises EndpointError if there is no such file, or if it has no such context; the library's texts say neither."""
    from device_plugin.adapters.kube.kubeconfig import context_names

    # $KUBECONFIG may list several files; missing ones are skipped.
    if not any(Path(part).exists() for part in path.split(os.pathsep) if part):
        raise EndpointError(f"kubeconfig {path}: no such file: `--help` says how to name yours")
    if (found := context_names(path)) is None:
        return
    names = ", ".join(found.names[:MOST_CONTEXTS]) or "none"
    if context and context not in found.names:
        raise EndpointError(f"kubeconfig {path}: there is no context {context}: its contexts are {names}")
    if not context and not found.current:
        raise EndpointError(f"kubeconfig {path} has no current context: write --context, of {names}")


def _nobody() -> None:
    return None


def _bearer(file: Path) -> Callable[[], str]:
    """A function that returns the header, and reads the token again when its file changes: tokens rotate every hour."""
    seen: list[tuple[int, str]] = []

    def header() -> str:
        try:
            changed = file.stat().st_mtime_ns
            if not seen or seen[-1][0] != changed:
                seen[:] = [(changed, "Bearer " + file.read_text(encoding="utf-8").strip())]
        except OSError as error:
            if not seen:
                raise EndpointError(f"token file {file}: {error.strerror}") from error
        return seen[-1][1]

    return header
