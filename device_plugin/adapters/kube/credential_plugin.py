"""A credential plugin: a program that a kubeconfig names, and that prints a token or a certificate for the API server.

The protocol is https://kubernetes.io/docs/reference/access-authn-authz/authentication/#client-go-credential-plugins.
"""

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from datetime import datetime
from math import inf
from pathlib import Path
from typing import Any, NamedTuple

from device_plugin.adapters.kube.endpoint import EndpointError
from device_plugin.adapters.kube.secret_files import secret_file
from device_plugin.core.printable import one_line

Entry = Mapping[str, Any]
_KIND = "ExecCredential"
_NEVER = "Never"


class _Credential(NamedTuple):
    """The credentials that a plugin gave. `expires` is in seconds since 1970."""

    token: str | None
    cert: str | None
    key: str | None
    expires: float


class CredentialPlugin:
    """Runs the plugin once now, and again when its credential has expired. Any thread may use it.

    `cert` and `key` are paths of files, which a new credential overwrites; None if the plugin gives only tokens.
    """

    def __init__(self, entry: object, path: str, folder: Path, cluster: Entry) -> None:
        """Run the plugin once. `entry` is the value of `exec` of a user in the kubeconfig at `path`.

        `folder` is the folder of the file that has the user: a kubeconfig may consist of several files. `cluster`
        describes the cluster, for a plugin that asks for it. Raises EndpointError.
        """
        if not isinstance(entry, dict) or not isinstance(entry.get("command"), str) or not entry["command"]:
            raise EndpointError(f"kubeconfig {path}: credential plugin: write its command")
        self._entry = entry
        self._path = path
        self._plugin = f"credential plugin {one_line(entry['command'])}"
        self._folder = folder
        self._cluster = cluster
        self._lock = threading.Lock()
        self.cert: str | None = None
        self.key: str | None = None
        self._now = self._credential()

    def authorization(self) -> str | None:
        """Returns the Authorization header; None if the plugin gave only a certificate. Raises EndpointError."""
        with self._lock:
            if time.time() >= self._now.expires:
                self._now = self._credential()
            return f"Bearer {self._now.token}" if self._now.token else None

    def _credential(self) -> _Credential:
        """Run the plugin and return its credential; writes certificate and key into our files. Raises EndpointError."""
        made = self._read(self._run())
        if made.cert and made.key:
            if self.cert is None or self.key is None:
                self.cert, self.key = secret_file(b""), secret_file(b"")
            Path(self.cert).write_text(made.cert, encoding="utf-8")
            Path(self.key).write_text(made.key, encoding="utf-8")
        return made

    def _run(self) -> bytes:
        """Run the plugin and return its output. The person sees its stderr, which may say where to log in."""
        command = self._entry["command"]
        if os.sep in command:
            command = str(self._folder / command)
        interactive = (
            self._entry.get("interactiveMode") != _NEVER and sys.stdin is not None and sys.stdin.isatty()
        )
        try:
            words = [command, *map(str, self._entry.get("args") or ())]
            given = {str(each["name"]): str(each["value"]) for each in self._entry.get("env") or ()}
            done = subprocess.run(
                words, env={**os.environ, **given, "KUBERNETES_EXEC_INFO": self._info(interactive=interactive)},
                stdin=None if interactive else subprocess.DEVNULL, stdout=subprocess.PIPE, check=False,
            )  # fmt: skip
        except OSError as error:
            hint = one_line(str(self._entry.get("installHint") or "")) or "install it into a folder of $PATH"
            raise EndpointError(
                f"kubeconfig {self._path}: {self._plugin} cannot be run ({error.strerror}): {hint}"
            ) from None
        except (LookupError, TypeError, ValueError):
            raise EndpointError(
                f"kubeconfig {self._path}: {self._plugin}: its args or env are not as Kubernetes has them"
            ) from None
        if done.returncode:
            raise EndpointError(
                f"kubeconfig {self._path}: {self._plugin} ended with {done.returncode}: run it yourself: you"
                " may have to log in"
            )
        return done.stdout

    def _info(self, *, interactive: bool) -> str:
        """Returns the request to the plugin as JSON text: an ExecCredential without a status."""
        spec: dict[str, Any] = {"interactive": interactive}
        if self._entry.get("provideClusterInfo") is True:
            spec["cluster"] = dict(self._cluster)
        return json.dumps(
            {"apiVersion": self._entry.get("apiVersion"), "kind": _KIND, "spec": spec}, default=str
        )

    def _read(self, printed: bytes) -> _Credential:
        """Returns the credential in the text that the plugin printed. Raises EndpointError."""
        try:
            answer = json.loads(printed)
            status = answer["status"]
            token, cert, key = (
                status.get(name) or None for name in ("token", "clientCertificateData", "clientKeyData")
            )
            given = status.get("expirationTimestamp")
            expires = datetime.fromisoformat(given.replace("Z", "+00:00")).timestamp() if given else inf
            whole = answer["kind"] == _KIND and all(
                isinstance(each, str | None) for each in (token, cert, key)
            )
        except (LookupError, TypeError, ValueError, AttributeError, OverflowError, RecursionError):
            whole = False
        if not whole:
            raise EndpointError(
                f"kubeconfig {self._path}: {self._plugin} does not print an {_KIND}: run it yourself to"
                " see what it prints"
            )
        if not token and not (cert and key):
            raise EndpointError(
                f"kubeconfig {self._path}: {self._plugin} gives neither a token nor a certificate with its key"
            )
        return _Credential(token, cert, key, expires)
