"""Pushes an OCI archive to a registry, by the protocol of the OCI distribution specification.

Blobs that the registry already has are not sent again.
"""

import base64
import http.client
import json
import os
import tarfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urljoin, urlsplit

INDEX = "application/vnd.oci.image.index.v1+json"
_TIMEOUT_SECONDS = 120
_CHUNK = 1 << 20


class RegistryError(Exception):
    """The registry refused a request; the text has the request and the answer."""


class Registry:
    """A client of a registry at `host` (HOST or HOST:PORT), over HTTP if `plain`, otherwise over HTTPS.

    User and password are taken from $VGPU_REGISTRY_USER and $VGPU_REGISTRY_PASSWORD, for Basic authentication.
    """

    def __init__(self, host: str, *, plain: bool = False) -> None:
        self._base = f"{'http' if plain else 'https'}://{host}"
        user, password = (os.environ.get(f"VGPU_REGISTRY_{name}", "") for name in ("USER", "PASSWORD"))
        told = base64.b64encode(f"{user}:{password}".encode()).decode()
        self._headers = {"Authorization": f"Basic {told}"} if user else {}

    def push(self, archive: Path, repository: str, tag: str) -> str:
        """Push the only image of an archive as `repository:tag`; returns the digest of its manifest.

        Raises RegistryError.
        """
        with tarfile.open(archive) as opened:
            (entry,) = json.loads(_read(opened, "index.json"))["manifests"]
            for blob in _blobs(opened, entry):
                self._blob(opened, repository, blob)
            for manifest in (*_children(opened, entry), entry):
                name = tag if manifest is entry else manifest["digest"]
                path = f"/v2/{repository}/manifests/{name}"
                self._ask(
                    "PUT", path, 201, _read(opened, _path(manifest)), {"Content-Type": manifest["mediaType"]}
                )
        return str(entry["digest"])

    def _blob(self, opened: tarfile.TarFile, repository: str, blob: Mapping[str, Any]) -> None:
        path = f"/v2/{repository}/blobs/"
        status, _ = self._send("HEAD", f"{path}{blob['digest']}", b"", {})
        if status == 200:
            return
        where = self._ask("POST", f"{path}uploads/", 202, b"", {})
        joined = "&" if urlsplit(where).query else "?"
        content = opened.extractfile(_path(blob))
        size = {"Content-Type": "application/octet-stream", "Content-Length": str(blob["size"])}
        self._ask("PUT", f"{where}{joined}{urlencode({'digest': blob['digest']})}", 201, content, size)

    def _ask(self, method: str, path: str, wanted: int, body: Any, headers: Mapping[str, str]) -> str:
        """Send a request; returns the address in the answer. Raises RegistryError unless the status is `wanted`."""
        status, answer = self._send(method, path, body, headers)
        if status != wanted:
            raise RegistryError(f"{method} {urlsplit(path).path}: {status}: {answer}")
        return answer

    def _send(self, method: str, path: str, body: Any, headers: Mapping[str, str]) -> tuple[int, str]:
        """Send a request; returns the status, and the header `Location` or else the body of the answer."""
        url = urlsplit(urljoin(self._base, path))
        kind = http.client.HTTPConnection if url.scheme == "http" else http.client.HTTPSConnection
        connection = kind(url.netloc, timeout=_TIMEOUT_SECONDS)
        try:
            target = f"{url.path}?{url.query}" if url.query else url.path
            connection.request(method, target, body, {**self._headers, **headers})
            answer = connection.getresponse()
            text = answer.read(_CHUNK).decode(errors="replace")
            return answer.status, answer.headers.get("Location") or text
        except OSError as error:
            raise RegistryError(f"{method} {url.netloc}{url.path}: {error}") from error
        finally:
            connection.close()


def _blobs(opened: tarfile.TarFile, entry: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """All blobs to which the manifests refer, each once."""
    seen = set()
    for manifest in _children(opened, entry) if entry["mediaType"] == INDEX else [entry]:
        content = json.loads(_read(opened, _path(manifest)))
        for blob in (content["config"], *content["layers"]):
            if blob["digest"] not in seen:
                seen.add(blob["digest"])
                yield blob


def _children(opened: tarfile.TarFile, entry: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    if entry["mediaType"] != INDEX:
        return []
    return list(json.loads(_read(opened, _path(entry)))["manifests"])


def _path(descriptor: Mapping[str, Any]) -> str:
    return f"blobs/{descriptor['digest'].replace(':', '/')}"


def _read(opened: tarfile.TarFile, name: str) -> bytes:
    content = opened.extractfile(name)
    if content is None:
        raise RegistryError(f"no {name} in the archive")
    return content.read()
