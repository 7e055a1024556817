"""The software bill of materials of a release, as SPDX 2.3 in JSON.

It has an entry for each product (the image and the plugin), with its Debian packages and the packages of its lock file.
"""

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from packaging.markers import Marker

# NAME==VERSION at the start of a line of a lock file, perhaps with a marker.
_LOCKED = re.compile(r"^([A-Za-z0-9._-]+)==([^\s;\\]+)(?: ; ([^\\\n]+))?", re.MULTILINE)
Document = Mapping[str, object]


@dataclass(frozen=True, order=True)
class Component:
    """A package of another project: its kind as in package URLs (deb, pypi), its name and its version."""

    kind: str
    name: str
    version: str

    @property
    def identifier(self) -> str:
        """The component's identifier in the document."""
        return _identifier(self.kind, self.name, self.version)

    @property
    def purl(self) -> str:
        """The component's package URL."""
        if self.kind == "deb":
            return f"pkg:deb/debian/{self.name}@{self.version.replace('+', '%2B')}?distro=bookworm"
        return f"pkg:{self.kind}/{self.name}@{self.version}"


def debian(versions: Mapping[str, str]) -> Sequence[Component]:
    """Components for Debian packages, given their versions by name."""
    return [Component("deb", name, version) for name, version in versions.items()]


def locked(lock: Path, pythons: Iterable[str]) -> Sequence[Component]:
    """The packages of a lock file that are installed on Linux for one of these versions of Python (3.11)."""
    environments = [
        {"python_version": version, "python_full_version": f"{version}.0", "sys_platform": "linux"}
        for version in pythons
    ]
    return [
        Component("pypi", name, version)
        for name, version, marker in _LOCKED.findall(lock.read_text(encoding="utf-8"))
        if not marker or any(Marker(marker).evaluate(each) for each in environments)
    ]


def document(version: str, created: str, products: Mapping[str, Sequence[Component]]) -> Document:
    """The bill of materials of a release's products, given the components of each.

    `created` is a time in the format of SPDX, such as 2026-11-23T00:00:00Z.
    """
    parts = sorted({part for contained in products.values() for part in contained})
    name = f"vgpu-{version}"
    seed = hashlib.sha256(repr((name, created, sorted(products.items()))).encode()).hexdigest()
    described = {product: _identifier("product", product, version) for product in products}
    return {
        "spdxVersion": "SPDX-2.3",
        "dataLicense": "CC0-1.0",
        "SPDXID": "SPDXRef-DOCUMENT",
        "name": name,
        "documentNamespace": f"https://vgpu.io/spdx/{name}-{seed[:16]}",
        "creationInfo": {"created": created, "creators": ["Tool: hack/release"]},
        "packages": [
            *(_package(product, version, described[product]) for product in products),
            *(
                {**_package(part.name, part.version, part.identifier), "externalRefs": [_reference(part)]}
                for part in parts
            ),
        ],
        "relationships": [
            *(_relationship("SPDXRef-DOCUMENT", "DESCRIBES", each) for each in described.values()),
            *(
                _relationship(described[product], "CONTAINS", part.identifier)
                for product, contained in products.items()
                for part in contained
            ),
        ],
    }


def _identifier(*words: str) -> str:
    return "SPDXRef-" + re.sub(r"[^A-Za-z0-9.]", "-", "-".join(words))


def _package(name: str, version: str, identifier: str) -> dict[str, object]:
    return {
        "name": name,
        "SPDXID": identifier,
        "versionInfo": version,
        "downloadLocation": "NOASSERTION",
        "filesAnalyzed": False,
    }


def _reference(part: Component) -> Document:
    return {"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl", "referenceLocator": part.purl}


def _relationship(one: str, kind: str, other: str) -> Document:
    return {"spdxElementId": one, "relationshipType": kind, "relatedSpdxElement": other}


def checksums(files: Iterable[Path]) -> str:
    """A line for each file with its checksum, in the format of sha256sum --check."""
    lines = []
    for file in sorted(files, key=lambda each: each.name):
        with file.open("rb") as content:
            lines.append(f"{hashlib.file_digest(content, 'sha256').hexdigest()}  {file.name}\n")
    return "".join(lines)
