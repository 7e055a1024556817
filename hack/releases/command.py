"""hack/release: the files of a release: chart, image for x86-64 and Arm, kubectl plugin, bill of materials, notes.

hack/release                                           # into build/release; prints the paths
hack/release --push registry.example.com/vgpu          # then push the image there, as VERSION
hack/release --image ARCHIVE --push localhost:5000/vgpu --plain-http

One more file, vgpu-VERSION-offline.tar.gz, holds all others: for sites without a registry. The files depend on the
commit alone. User and password of a registry: $VGPU_REGISTRY_USER, $VGPU_REGISTRY_PASSWORD.
"""

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from hack.releases import krew, notes, sbom, tarballs
from hack.releases.registry import Registry, RegistryError
from hack.testbed import programs
from hack.testbed.images import cache, debian, oci, ours, python
from vgpu_runtime.paths import SOURCES
from vgpu_runtime.sim.debian import DebianUnavailableError

PROJECT = SOURCES.parent
CHART = PROJECT / "manifests/chart"
VERSION = ours.TAG
OFFLINE = """vgpu {version}, without a registry

On every node:                ctr --namespace k8s.io images import vgpu-{version}.oci.tar
Once, with the cluster's kubeconfig:
                              helm install vgpu vgpu-{version}.tgz -n vgpu-system --create-namespace
kube-scheduler's image (value scheduler.repository) must be on the nodes or in a mirror of yours too.
To check the files:           sha256sum --check SHA256SUMS
"""


def main() -> int:
    """Carry out the command; the exit status."""
    parser = argparse.ArgumentParser(
        prog="hack/release", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=PROJECT / "build/release", help="default: %(default)s")
    parser.add_argument(
        "--url",
        default=f"https://example.com/vgpu/{VERSION}",
        help="where the archives of the kubectl plugin will be",
    )
    parser.add_argument("--image", type=Path, help="only push this OCI archive")
    parser.add_argument(
        "--push", metavar="REGISTRY/NAME", help="push the image there, with the version as its tag"
    )
    parser.add_argument("--plain-http", action="store_true", help="push over HTTP")
    arguments = parser.parse_args()
    try:
        image = arguments.image or _image()
        if not arguments.image:
            print(*release(arguments.out, image, arguments.url), sep="\n")
        if arguments.push:
            host, _, repository = arguments.push.partition("/")
            digest = Registry(host, plain=arguments.plain_http).push(image, repository, VERSION)
            print(f"{arguments.push}:{VERSION}@{digest}")
    except (DebianUnavailableError, programs.MissingError, RegistryError) as error:
        print(f"hack/release: {error}", file=sys.stderr)
        return 1
    except subprocess.CalledProcessError as error:
        print(f"hack/release: {error.cmd[0]} ended with status {error.returncode}", file=sys.stderr)
        return 1
    return 0


def _image() -> Path:
    """The archive with the product's images for all architectures."""
    first, *others = (ours.product(PROJECT, VERSION, architecture) for architecture in ours.MACHINES)
    layers = [layer.name for image in (first, *others) for layer in image.layers]
    key = cache.fingerprint(first.reference, layers, first.config)
    return cache.keep(
        cache.folder() / f"release-{key}.tar", lambda target: oci.write_archive(first, target, *others)
    )


def release(out: Path, image: Path, url: str) -> Sequence[Path]:
    """Write all files into the folder `out`; their paths. `url` is where the plugin's archives will be."""
    out.mkdir(parents=True, exist_ok=True)
    plugins = {
        each: krew.archive(out / f"kubectl-vgpu-{VERSION}-linux-{each}.tar.gz", each)
        for each in ours.MACHINES
    }
    made = [
        *plugins.values(),
        _written(out / "krew.yaml", krew.manifest(VERSION, url, plugins)),
        _copied(image, out / f"vgpu-{VERSION}.oci.tar"),
        tarballs.write(out / f"vgpu-{VERSION}.tgz", chart()),
        _written(out / f"vgpu-{VERSION}.spdx.json", json.dumps(bill(), indent=1) + "\n"),
        _written(out / "NOTES.md", notes.changes(VERSION, notes.subjects(PROJECT))),
        _written(out / "COMPATIBILITY.md", notes.compatibility()),
        _written(out / "OFFLINE.txt", OFFLINE.format(version=VERSION)),
    ]
    made.append(_written(out / "SHA256SUMS", sbom.checksums(made)))
    offline = {f"vgpu-{VERSION}/{file.name}": file for file in made}
    return [*made, tarballs.write(out / f"vgpu-{VERSION}-offline.tar.gz", offline)]


def chart() -> tarballs.Content:
    """The files of the chart's package, which helm installs."""
    return {f"vgpu/{file.relative_to(CHART)}": file for file in CHART.rglob("*") if file.is_file()}


def bill() -> Mapping[str, object]:
    """The bill of materials of the image."""
    created = time.strftime("%FT%TZ", time.gmtime(_commit_time()))
    lock = sbom.locked(python.LOCK.read_text(encoding="utf-8"))
    return sbom.document("vgpu", VERSION, created, debian.versions(*python.DEBIAN), lock)


def _commit_time() -> float:
    asked = ["git", "log", "-1", "--format=%ct"]
    return float(subprocess.run(asked, cwd=PROJECT, capture_output=True, text=True, check=True).stdout)


def _written(file: Path, text: str) -> Path:
    file.write_text(text, encoding="utf-8")
    return file


def _copied(source: Path, target: Path) -> Path:
    """A second name of the same file where the disk allows it."""
    target.unlink(missing_ok=True)
    subprocess.run(["cp", "--reflink=auto", source, target], check=True)
    return target


if __name__ == "__main__":
    sys.exit(main())
