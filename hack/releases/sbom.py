"""The software bill of materials of an image, as SPDX 2.3 in JSON: Debian's packages and those of the lock file."""

import hashlib
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

# NAME==VERSION, perhaps with a marker, at the start of a line of the lock file.
_LOCKED = re.compile(r"^([A-Za-z0-9._-]+)==([^\s;\\]+)", re.MULTILINE)
Document = Mapping[str, object]


def locked(lock: str) -> Mapping[str, str]:
    """The packages of a lock file with their versions."""
    return dict(_LOCKED.findall(lock))


def document(
    name: str, version: str, created: str, debian: Mapping[str, str], python: Mapping[str, str]
) -> Document:
    """The bill of one image. `created` is a time as SPDX writes it, 2026-11-23T00:00:00Z."""
    parts = [
        *(
            _package("deb", f"pkg:deb/debian/{each}@{number}?distro=bookworm", each, number)
            for each, number in debian.items()
        ),
        *(_package("pypi", f"pkg:pypi/{each}@{number}", each, number) for each, number in python.items()),
    ]
    image = {**_package("image", "", name, version), "SPDXID": "SPDXRef-image"}
    del image["externalRefs"]
    seed = hashlib.sha256(
        repr((name, version, created, sorted(debian.items()), sorted(python.items()))).encode()
    )
    return {
        "spdxVersion": "SPDX-2.3",
        "dataLicense": "CC0-1.0",
        "SPDXID": "SPDXRef-DOCUMENT",
        "name": f"{name}-{version}",
        "documentNamespace": f"https://vgpu.io/spdx/{name}-{version}-{seed.hexdigest()[:16]}",
        "creationInfo": {"created": created, "creators": ["Tool: hack/release"]},
        "packages": [image, *parts],
        "relationships": [
            _relationship("SPDXRef-DOCUMENT", "DESCRIBES", "SPDXRef-image"),
            *(_relationship("SPDXRef-image", "CONTAINS", f"{part['SPDXID']}") for part in parts),
        ],
    }


def _package(kind: str, purl: str, name: str, version: str) -> dict[str, object]:
    identifier = re.sub(r"[^A-Za-z0-9.]", "-", f"{kind}-{name}")
    reference = {"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl", "referenceLocator": purl}
    return {
        "name": name,
        "SPDXID": f"SPDXRef-{identifier}",
        "versionInfo": version,
        "downloadLocation": "NOASSERTION",
        "filesAnalyzed": False,
        "externalRefs": [reference],
    }


def _relationship(one: str, kind: str, other: str) -> Document:
    return {"spdxElementId": one, "relationshipType": kind, "relatedSpdxElement": other}


def checksums(files: Iterable[Path]) -> str:
    """A line for each file, as sha256sum --check reads them."""
    lines = []
    for file in sorted(files, key=lambda each: each.name):
        with file.open("rb") as content:
            lines.append(f"{hashlib.file_digest(content, 'sha256').hexdigest()}  {file.name}\n")
    return "".join(lines)
