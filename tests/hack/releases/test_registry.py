"""Images for two architectures are pushed to a real registry, Debian's docker-registry."""

import http.client
import json
import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from hack.releases.registry import INDEX, Registry, RegistryError
from hack.testbed.images import oci
from tests.deadline import eventually
from tests.requirement import require


@pytest.fixture
def host(tmp_path: Path) -> Iterator[str]:
    """HOST:PORT of a registry without a password."""
    program = shutil.which("docker-registry")
    require(program, "needs docker-registry: apt-get install --no-install-recommends docker-registry")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
    config = {
        "version": 0.1,
        "storage": {"filesystem": {"rootdirectory": str(tmp_path / "data")}},
        "http": {"addr": address},
    }
    (tmp_path / "config.yml").write_text(json.dumps(config))
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen(
            [str(program), "serve", str(tmp_path / "config.yml")], stdout=log, stderr=log
        )
    try:
        assert eventually(lambda: _listens(address), 60)
        yield address
    finally:
        process.terminate()
        process.wait()


def _listens(address: str) -> bool:
    host, _, port = address.partition(":")
    with socket.socket() as tried:
        return tried.connect_ex((host, int(port))) == 0


def archive(folder: Path, *architectures: str) -> Path:
    images = []
    for name in architectures:
        (folder / name).write_bytes(name.encode() * 1000)
        (folder / "shared").write_bytes(b"shared")
        images.append(oci.Image("vgpu.io/vgpu:1", [folder / "shared", folder / name], {"User": "1"}, name))
    target = folder / f"{'-'.join(architectures)}.tar"
    oci.write_archive(images[0], target, *images[1:])
    return target


def get(host: str, path: str, kind: str) -> bytes:
    connection = http.client.HTTPConnection(host, timeout=60)
    connection.request("GET", f"/v2/tools/vgpu/{path}", headers={"Accept": kind})
    content = connection.getresponse().read()
    connection.close()
    return content


def test_one_tag_holds_the_images_of_both_architectures(host: str, tmp_path: Path) -> None:
    pushed = archive(tmp_path, "amd64", "arm64")
    registry = Registry(host, plain=True)
    digest = registry.push(pushed, "tools/vgpu", "1")
    assert registry.push(pushed, "tools/vgpu", "1") == digest
    index = json.loads(get(host, "manifests/1", INDEX))
    assert [entry["platform"]["architecture"] for entry in index["manifests"]] == ["amd64", "arm64"]
    for entry in index["manifests"]:
        manifest = json.loads(get(host, f"manifests/{entry['digest']}", entry["mediaType"]))
        config = json.loads(get(host, f"blobs/{manifest['config']['digest']}", "*/*"))
        assert (config["architecture"], config["config"]) == (
            entry["platform"]["architecture"],
            {"User": "1"},
        )
        layers = [get(host, f"blobs/{layer['digest']}", "*/*") for layer in manifest["layers"]]
        assert layers == [b"shared", config["architecture"].encode() * 1000]


def test_an_image_of_one_architecture_has_a_plain_manifest(host: str, tmp_path: Path) -> None:
    digest = Registry(host, plain=True).push(archive(tmp_path, "amd64"), "tools/vgpu", "2")
    assert "layers" in json.loads(
        get(host, f"manifests/{digest}", "application/vnd.oci.image.manifest.v1+json")
    )


def test_what_the_registry_refuses_is_said(host: str, tmp_path: Path) -> None:
    with pytest.raises(RegistryError, match=r"POST /v2/UPPER/blobs/uploads/: 40"):
        Registry(host, plain=True).push(archive(tmp_path, "amd64"), "UPPER", "1")


def test_a_registry_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(RegistryError, match=r"HEAD 127.0.0.1:1/v2/x/blobs/.*refused"):
        Registry("127.0.0.1:1", plain=True).push(archive(tmp_path, "amd64"), "x", "1")
