"""hack/release: the files of a release: chart, image for x86-64 and Arm, kubectl plugin, bill of materials, notes.

hack/release                                           # into build/release; prints the paths
hack/release --url https://example.com/vgpu/0.1.0      # with krew.yaml: the plugin's archives will be there
hack/release --scheduler kube-scheduler-v1.36.3.tar    # with kube-scheduler's image, for sites without a network
hack/release --push registry.example.com/vgpu          # then push the image there, as VERSION
hack/release --image ARCHIVE --push localhost:5000/vgpu --plain-http

One more file, vgpu-VERSION-offline.tar.gz, holds all others: for sites without a registry. The files depend on the
commit and these arguments alone. User and password of a registry: $VGPU_REGISTRY_USER, $VGPU_REGISTRY_PASSWORD.
"""

import argparse
import glob
import json
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from hack.releases import images, krew, notes, offline, sbom, tarballs
from hack.releases.offline import NoSchedulerError
from hack.releases.registry import Registry, RegistryError
from hack.testbed import programs
from hack.testbed.images import cache, debian, oci, ours, python
from vgpu_runtime.paths import SOURCES
from vgpu_runtime.sim.debian import DebianUnavailableError

PROJECT = SOURCES.parent
CHART = PROJECT / "manifests/chart"
VERSION = ours.TAG


def main() -> int:
    """Carry out the command; returns the exit status."""
    parser = argparse.ArgumentParser(
        prog="hack/release", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=PROJECT / "build/release", help="default: %(default)s")
    parser.add_argument(
        "--url", help="where the archives of the kubectl plugin will be; without it there is no krew.yaml"
    )
    parser.add_argument(
        "--scheduler", type=Path, metavar="ARCHIVE", help="kube-scheduler's image, as docker save writes it"
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
            print(*release(arguments.out, image, arguments.url, arguments.scheduler), sep="\n")
            print(*left_out(arguments.url, arguments.scheduler), sep="\n", file=sys.stderr)
        if arguments.push:
            host, _, repository = arguments.push.partition("/")
            digest = Registry(host, plain=arguments.plain_http).push(image, repository, VERSION)
            print(f"{arguments.push}:{VERSION}@{digest}")
    except (DebianUnavailableError, programs.MissingError, RegistryError, NoSchedulerError) as error:
        print(f"hack/release: {error}", file=sys.stderr)
        return 1
    except subprocess.CalledProcessError as error:
        print(f"hack/release: {error.cmd[0]} ended with status {error.returncode}", file=sys.stderr)
        return 1
    return 0


def _image() -> Path:
    """The path of the archive with the product's images for all architectures; it is built if it is not cached."""
    first, *others = (ours.product(PROJECT, VERSION, architecture) for architecture in ours.MACHINES)
    layers = [layer.name for image in (first, *others) for layer in image.layers]
    key = cache.fingerprint(first.reference, layers, first.config)
    return cache.keep(
        cache.folder() / f"release-{key}.tar", lambda target: oci.write_archive(first, target, *others)
    )


def release(out: Path, image: Path, url: str | None, scheduler: Path | None) -> Sequence[Path]:
    """Write all files of the release into the folder `out`; returns their paths.

    `url` is the future address of the plugin's archives; without it there is no krew.yaml. `scheduler` is an archive
    with kube-scheduler's image. Raises NoSchedulerError if it does not have the image.
    """
    out.mkdir(parents=True, exist_ok=True)
    holding = {f"{ours.NAME}:{VERSION}": _copied(image, out / f"vgpu-{VERSION}.oci.tar")}
    if scheduler is not None:
        held = offline.scheduler_in(scheduler)
        holding[held] = _copied(scheduler, out / offline.file_name(held))
    plugins = {
        each: krew.archive(out / f"kubectl-vgpu-{VERSION}-linux-{each}.tar.gz", each)
        for each in ours.MACHINES
    }
    manifest = [_written(out / "krew.yaml", krew.manifest(VERSION, url, plugins))] if url else []
    names = {name: file.name for name, file in holding.items()}
    made = [
        *plugins.values(),
        *manifest,
        *holding.values(),
        tarballs.write(out / f"vgpu-{VERSION}.tgz", chart()),
        _written(out / f"vgpu-{VERSION}.spdx.json", json.dumps(bill(), indent=1) + "\n"),
        _written(out / "NOTES.md", notes.changes(VERSION, notes.subjects(PROJECT))),
        _written(out / "COMPATIBILITY.md", notes.compatibility()),
        _written(out / "images.txt", images.listed()),
        _written(out / "OFFLINE.txt", offline.text(VERSION, images.scheduler(), names)),
    ]
    made.append(_written(out / "SHA256SUMS", sbom.checksums(made)))
    packed = {f"vgpu-{VERSION}/{file.name}": file for file in made}
    return [*made, tarballs.write(out / f"vgpu-{VERSION}-offline.tar.gz", packed)]


def left_out(url: str | None, scheduler: Path | None) -> Iterator[str]:
    """A line for each optional file that this release does not have, with the option that adds it."""
    if not url:
        yield "no krew.yaml: it names the address of the plugin's archives, --url ADDRESS"
    if scheduler is None:
        wanted = images.scheduler()
        yield (
            f"{wanted} is not in the offline archive: a site must fetch it itself, as OFFLINE.txt says. To add it:"
            f" docker pull {wanted}; docker save {wanted} -o {offline.file_name(wanted)};"
            f" hack/release --scheduler {offline.file_name(wanted)}"
        )


def chart() -> tarballs.Content:
    """The files of the chart's package, which helm installs."""
    names = glob.iglob("**", root_dir=CHART, recursive=True)  # noqa: PTH207 - rglob follows no link, as to the boards
    return {f"vgpu/{name}": CHART / name for name in names if (CHART / name).is_file()}


def bill() -> Mapping[str, object]:
    """The bill of materials of the image and of the plugin's archives."""
    created = time.strftime("%FT%TZ", time.gmtime(_commit_time()))
    debian_packages = sbom.debian(debian.versions(*python.DEBIAN))
    return sbom.document(
        VERSION,
        created,
        {
            "vgpu": [*debian_packages, *sbom.locked(python.LOCK, [python.VERSION])],
            "kubectl-vgpu": sbom.locked(krew.LOCK, krew.PYTHONS),
        },
    )


def _commit_time() -> float:
    asked = ["git", "log", "-1", "--format=%ct"]
    return float(subprocess.run(asked, cwd=PROJECT, capture_output=True, text=True, check=True).stdout)


def _written(file: Path, text: str) -> Path:
    file.write_text(text, encoding="utf-8")
    return file


def _copied(source: Path, target: Path) -> Path:
    """Copy a file; the copy shares its blocks with the source if the disk allows it."""
    target.unlink(missing_ok=True)
    subprocess.run(["cp", "--reflink=auto", source, target], check=True)
    return target


if __name__ == "__main__":
    sys.exit(main())
