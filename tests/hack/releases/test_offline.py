"""OFFLINE.txt says which image a site must fetch; an archive with kube-scheduler's image is recognised."""

import io
import json
import tarfile
from pathlib import Path

import pytest

from hack.releases import offline
from hack.testbed.images import oci

OURS, SCHEDULER = "vgpu.io/vgpu:1", "registry.k8s.io/kube-scheduler:v1.36.3"
OLDER = "registry.k8s.io/kube-scheduler:v1.34.4"


def test_without_kube_scheduler_the_text_says_how_to_fetch_it() -> None:
    text = offline.text("1", SCHEDULER, {OURS: "vgpu-1.oci.tar"})
    assert f"    {SCHEDULER}  not here, see below\n    {OURS:38}  vgpu-1.oci.tar\n" in text
    assert f"docker save {SCHEDULER} -o kube-scheduler-v1.36.3.tar" in text


@pytest.mark.parametrize(("held", "words"), [(SCHEDULER, ""), (OLDER, " --set scheduler.tag=v1.34.4")])
def test_with_it_the_command_names_another_version(held: str, words: str) -> None:
    text = offline.text("1", SCHEDULER, {OURS: "vgpu-1.oci.tar", held: "scheduler.tar"})
    assert f"    {held}  scheduler.tar\n" in text
    assert f"helm install vgpu vgpu-1.tgz -n vgpu-system --create-namespace{words}\n" in text
    assert "docker" not in text


def docker_archive(file: Path, *names: str) -> Path:
    content = json.dumps([{"Config": "x", "RepoTags": names or None, "Layers": []}]).encode()
    with tarfile.open(file, "w") as archive:
        entry = tarfile.TarInfo("manifest.json")
        entry.size = len(content)
        archive.addfile(entry, io.BytesIO(content))
    return file


def test_kube_scheduler_is_found_in_archives_of_docker_and_of_containerd(tmp_path: Path) -> None:
    assert offline.scheduler_in(docker_archive(tmp_path / "docker.tar", OURS, OLDER)) == OLDER
    (tmp_path / "layer").touch()
    oci.write_archive(oci.Image(SCHEDULER, [tmp_path / "layer"], {}), tmp_path / "oci.tar")
    assert offline.scheduler_in(tmp_path / "oci.tar") == SCHEDULER
    assert offline.file_name(SCHEDULER) == "kube-scheduler-v1.36.3.tar"


def test_another_file_is_refused_with_what_it_holds(tmp_path: Path) -> None:
    with pytest.raises(
        offline.NoSchedulerError, match=r"a\.tar has no image .*kube-scheduler, but vgpu.io/vgpu:1"
    ):
        offline.scheduler_in(docker_archive(tmp_path / "a.tar", OURS))
    with pytest.raises(offline.NoSchedulerError, match=r"b\.tar has no image .*, but none"):
        offline.scheduler_in(docker_archive(tmp_path / "b.tar"))
    (tmp_path / "text").write_text("not an archive")
    with pytest.raises(offline.NoSchedulerError, match="text is no archive of an image"):
        offline.scheduler_in(tmp_path / "text")
    with pytest.raises(offline.NoSchedulerError, match="none is no archive of an image"):
        offline.scheduler_in(tmp_path / "none")
