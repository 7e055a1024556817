"""The images, as archives."""

import os
import re
import tarfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from hack.testbed.images import cache, scheduler
from tests.hack.archives import Archive
from tests.hack.conftest import COLD_SECONDS, build

pytestmark = pytest.mark.timeout(COLD_SECONDS)
# Of the product, on a disk that keeps files in blocks.
MOST_MEGABYTES, MOST_PACKAGES, BLOCK = 180, 12, 4096
# Its user's credentials are read by a package that the image lacks.
AUTH_PROVIDER = """\
current-context: c
contexts: [{name: c, context: {cluster: c, user: c}}]
clusters: [{name: c, cluster: {server: 'https://127.0.0.1:1'}}]
users: [{name: c, user: {auth-provider: {name: oidc}}}]
"""


def valid(archive: Archive, name: str) -> None:
    tag = name.rpartition(":")[2]
    assert archive.entry["annotations"] == {
        "io.containerd.image.name": name,
        "org.opencontainers.image.ref.name": tag,
    }
    assert (archive.image["os"], archive.image["architecture"]) == ("linux", "amd64")
    # Layers are not compressed, so that both of their digests are one.
    digests = [layer["digest"] for layer in archive.manifest["layers"]]
    assert archive.image["rootfs"] == {"type": "layers", "diff_ids": digests}
    for entry in entries(archive):
        assert (entry.uid, entry.gid, entry.uname, entry.gname, entry.mtime) == (0, 0, "", "", 0)
        assert entry.isdir() or entry.isreg() or entry.issym()
        assert entry.mode & 0o6022 == 0 or entry.issym() or entry.mode == 0o1777


def entries(archive: Archive) -> Iterator[tarfile.TarInfo]:
    for descriptor in archive.manifest["layers"]:
        with archive.layer(descriptor) as layer:
            yield from layer


def test_vgpu_is_a_valid_image(vgpu: Archive) -> None:
    valid(vgpu, "vgpu.io/vgpu:0.1.0")


def test_simulated_is_the_product_with_one_more_layer(vgpu: Archive, simulated: Archive) -> None:
    valid(simulated, "vgpu.io/vgpu-simulated:0.1.0")
    assert simulated.manifest["layers"][:-1] == vgpu.manifest["layers"]


def test_the_product_is_small_and_holds_nothing_of_the_laboratory(
    vgpu: Archive, capsys: pytest.CaptureFixture[str]
) -> None:
    found = list(entries(vgpu))
    packages = [entry.name for entry in found if entry.name.endswith(".dist-info")]
    size = sum(-(-entry.size // BLOCK) * BLOCK for entry in found if entry.isreg()) / 1e6
    with capsys.disabled():
        print(f"\nproduct image: {size:.0f} MB unpacked, {len(packages)} packages")
    assert size <= MOST_MEGABYTES
    assert len(packages) <= MOST_PACKAGES
    laboratory = re.compile(
        r"opt/vgpu/(hack|vgpu_runtime/sim|build/libsimkfd|device_plugin/.*(embedded|bench|demo))"
    )
    assert not [entry.name for entry in found if laboratory.search(entry.name)]


def test_the_product_scores_by_the_compiled_kernel(vgpu: Archive, tmp_path: Path) -> None:
    vgpu.unpack(tmp_path)
    program = "from device_plugin.core.placement import kernel; print(kernel.compiled() is not None)"
    done = vgpu.run(tmp_path, "/usr/bin/python3.11", "-c", program)
    assert (done.stdout, done.stderr) == ("True\n", "")


def test_the_product_offers_what_works_in_it(vgpu: Archive, tmp_path: Path) -> None:
    vgpu.unpack(tmp_path)
    done = vgpu.run(tmp_path, "vgpu", "--help", user=vgpu.config["User"])
    services = [
        "node",
        "cluster",
        "job-engine",
        "ui-server",
        "mount-writable",
        "copy-library",
        "scheduler-config",
    ]
    assert re.findall(r"^  ([a-z][a-z-]*) ", done.stdout, re.MULTILINE) == services
    # Commands of people run as well: what a kubeconfig lacks is said, and which package its user needs.
    (tmp_path / "kubeconfig").write_text(AUTH_PROVIDER)
    for command in (["cordon", "n1/0"], ["drain", "n1/0"], ["defrag"]):
        done = vgpu.run(tmp_path, "vgpu", *command)
        assert done.returncode == 2
        assert done.stderr.endswith(
            "kubeconfig ~/.kube/config does not exist: name another one with --kubeconfig\n"
        )
        done = vgpu.run(tmp_path, "vgpu", *command, "--kubeconfig", "/kubeconfig")
        assert (done.returncode, "pip install '.[cli]'" in done.stderr) == (2, True), done.stderr


def test_pause_is_a_valid_image() -> None:
    valid(Archive(build("pause")), "registry.k8s.io/pause:3.10")


def test_scheduler_is_a_valid_image(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "folder", lambda: tmp_path / "images")
    (tmp_path / "kube").write_text("a binary")
    (tmp_path / "kube").chmod(0o755)
    archive = Archive(scheduler.build(tmp_path / "kube"))
    valid(archive, "registry.k8s.io/kube-scheduler:v1.36.3")
    with archive.ours() as layer:
        assert layer.getmember("usr/local/bin/kube-scheduler").mode == 0o755
    assert "Entrypoint" not in archive.config


def test_both_services_load_as_the_images_user_and_find_their_libraries(
    vgpu: Archive, tmp_path: Path
) -> None:
    vgpu.unpack(tmp_path)
    done = vgpu.run(tmp_path, *vgpu.config["Entrypoint"], "--help", user=vgpu.config["User"])
    assert (done.returncode, done.stderr) == (0, "")
    assert "run the node agent" in done.stdout
    code = (
        "import device_plugin.wiring.cluster, device_plugin.wiring.node, vgpu_runtime.paths as paths;"
        "print(paths.LIBRARY.exists())"
    )
    done = vgpu.run(tmp_path, "python3.11", "-c", code, user=vgpu.config["User"])
    assert (done.stdout, done.stderr) == ("True\n", "")


def test_the_simulated_image_makes_cards_and_reads_them(simulated: Archive, tmp_path: Path) -> None:
    simulated.unpack(tmp_path)
    (tmp_path / "cards.yaml").write_text("version: v1\ncards: [{preset: hygon-60cu-16gib}]")
    made = ("build", "--cards=/cards.yaml", "--folder=/machine", "--machine=n1")
    done = simulated.run(tmp_path, "vgpu", "simulate", *made)
    assert "16368 MiB, 60 compute units" in done.stdout, done.stderr
    code = (
        "import pathlib, hack.simulated.node; from device_plugin.wiring.settings import NodeSettings;"
        "print(len(hack.simulated.node.host(NodeSettings(root='/machine')).machine.matching('dev/dri/*')))"
    )
    done = simulated.run(tmp_path, "python3.11", "-c", code)
    assert (done.stdout, done.stderr) == ("1\n", "")


def test_library_in_the_image_needs_no_newer_glibc_than_2_17(vgpu: Archive) -> None:
    with vgpu.ours() as layer:
        library = layer.extractfile("opt/vgpu/build/libvgpu.so")
        assert library is not None
        found = re.findall(rb"GLIBC_(\d+)\.(\d+)", library.read())
    assert (2, 2) <= max((int(major), int(minor)) for major, minor in found) <= (2, 17)


def test_everything_is_compiled(vgpu: Archive) -> None:
    with vgpu.ours() as layer:
        names = set(layer.getnames())
    sources = [Path(name) for name in names if name.endswith(".py")]
    assert {str(path.parent / "__pycache__" / f"{path.stem}.cpython-311.pyc") for path in sources} < set(
        names
    )


def test_neither_compilers_nor_pip_are_in_the_image(vgpu: Archive) -> None:
    unwanted = re.compile(r"bin/(pip.*|.*gcc.*|cc|make)$|packages/(pip|setuptools)$")
    assert not [entry.name for entry in entries(vgpu) if unwanted.search(entry.name)]


def test_hip_loads_in_the_workload(workload: Archive, tmp_path: Path) -> None:
    valid(workload, "vgpu.io/workload:0.1.0")
    workload.unpack(tmp_path)
    done = workload.run(tmp_path, "sh", "-c", "vgpu-probe info")
    assert '"devices":0,"error":"hipErrorNoDevice"' in done.stdout


def test_two_builds_are_the_same_bytes(
    checkout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = build("vgpu", source=checkout)
    (tmp_path / "trees").symlink_to(cache.folder() / "trees")
    monkeypatch.setattr(cache, "folder", lambda: tmp_path)
    second = build("vgpu", source=checkout)
    assert second != first
    assert Archive(second).entry == Archive(first).entry
    assert second.name == first.name


def test_another_tag_is_another_image_of_the_same_layers(vgpu: Archive, checkout: Path) -> None:
    other = Archive(build("vgpu", source=checkout, tag="0.0.9"))
    assert other.manifest["layers"] == vgpu.manifest["layers"]
    assert other.entry["annotations"]["io.containerd.image.name"] == "vgpu.io/vgpu:0.0.9"
    assert other.config["Labels"]["org.opencontainers.image.version"] == "0.0.9"


def test_what_was_made_is_kept_until_its_inputs_change(tmp_path: Path) -> None:
    made: list[str] = []

    def keep(text: str) -> Path:
        def make(target: Path) -> None:
            made.append(text)
            target.write_text(text)

        return cache.keep(tmp_path / f"thing-{cache.fingerprint(text)}.tar", make)

    assert keep("a") == keep("a") != keep("b")
    assert made == ["a", "b"]
    assert len(list(tmp_path.iterdir())) == 2


def test_what_nobody_used_for_a_day_goes(tmp_path: Path) -> None:
    for name in ("thing-1.tar", "thing-2.tar", "other-thing-1.tar"):
        (tmp_path / name).write_text("made")
    for name in ("thing-1.tar", "other-thing-1.tar"):
        os.utime(tmp_path / name, (0, 0))
    cache.keep(tmp_path / "thing-3.tar", lambda target: target.touch())
    left = {path.name for path in tmp_path.iterdir()}
    assert left == {"thing-2.tar", "thing-3.tar", "other-thing-1.tar"}


def test_of_one_kind_only_those_used_last_are_kept(tmp_path: Path) -> None:
    for number in range(cache.MOST + 2):
        (tmp_path / f"thing-{number}.tar").write_text("made")
        os.utime(tmp_path / f"thing-{number}.tar", (time.time() + number,) * 2)
    cache.keep(tmp_path / "thing-new.tar", lambda target: target.touch())
    left = {path.name for path in tmp_path.iterdir()}
    assert left == {"thing-new.tar", *(f"thing-{number}.tar" for number in range(2, cache.MOST + 2))}
