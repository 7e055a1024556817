"""The Dockerfile, and `hack/image` that makes the same image without Docker."""

import re
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path, PurePosixPath

import pytest

from hack.testbed.images import dockerfile, ours, python
from tests.hack.archives import Archive
from tests.hack.conftest import COLD_SECONDS
from vgpu_runtime.paths import SOURCES

pytestmark = pytest.mark.timeout(COLD_SECONDS)
PROJECT = SOURCES.parent
TEXT = re.sub(r"\\\n\s*", "", dockerfile.FILE.read_text())


def test_settings_are_those_of_the_manifests(vgpu: Archive) -> None:
    assert vgpu.config["Entrypoint"] == ["vgpu"]
    assert vgpu.config["User"] == "65532:65532"
    assert "PYTHONPATH=/opt/vgpu:/opt/vgpu/packages" in vgpu.config["Env"]


def test_every_setting_is_in_the_archives(vgpu: Archive, simulated: Archive) -> None:
    known = {"ARG", "COPY", "ENTRYPOINT", "ENV", "FROM", "LABEL", "USER"}
    assert {word for word, _ in dockerfile.instructions("product")} <= known
    assert {word for word, _ in dockerfile.instructions("simulated")} == {"COPY", "FROM"}
    assert vgpu.config == simulated.config == dockerfile.config({})


def test_whoever_names_no_target_gets_the_product() -> None:
    assert TEXT.rstrip().splitlines()[-1] == "FROM product"


def test_labels_tell_what_the_project_says_of_itself(vgpu: Archive) -> None:
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]
    assert vgpu.config["Labels"] == {
        "org.opencontainers.image.title": project["name"],
        "org.opencontainers.image.description": project["description"],
        "org.opencontainers.image.version": project["version"],
        "org.opencontainers.image.revision": "unknown",
    }


@pytest.mark.parametrize(
    ("stage", "wanted"), [("product", ours.product_files), ("simulated", ours.simulated_files)]
)
def test_the_same_files_of_ours(
    stage: str,
    wanted: Callable[[Path], Mapping[str, Path]],
    vgpu: Archive,
    simulated: Archive,
    checkout: Path,
) -> None:
    places = set()
    for word, rest in dockerfile.instructions(stage):
        if word == "COPY":
            *sources, target = [part for part in rest.split() if not part.startswith("--")]
            places |= {
                target + PurePosixPath(file).name if target.endswith("/") else target for file in sources
            }
    places.discard(f"/{python.PACKAGES}")
    with (vgpu if stage == "product" else simulated).ours() as layer:
        files = [f"/{entry.name}" for entry in layer if entry.isreg()]
    assert all(any(PurePosixPath(file).is_relative_to(place) for place in places) for file in files)
    assert all(any(PurePosixPath(file).is_relative_to(place) for file in files) for place in places)
    written = {file for file in files if not file.endswith(".pyc")}
    assert written == {f"/{place}" for place in wanted(checkout)}
    (kept,) = re.findall(r"^RUN find .*", TEXT, re.MULTILINE)
    assert tuple(re.findall(r"! -name '\*(\.\w+)'", kept)) == ours.SUFFIXES


def test_the_same_packages_and_the_same_lock() -> None:
    stage = TEXT[TEXT.index("AS files") :]
    assert f"install --yes --no-install-recommends {' '.join(python.DEBIAN)} python3-pip" in stage
    assert "distroless/python3-debian12 AS product" in stage, "of the same Debian"
    assert "COPY requirements/run.lock /\n" in TEXT
    (install,) = re.findall(r"pip install .*", TEXT)
    wanted = {option for option in python.PIP if option.startswith("--")} - {
        "--quiet",
        "--root-user-action=ignore",
    }
    assert wanted <= set(install.split())


def test_what_docker_is_given_is_what_the_dockerfile_copies() -> None:
    given = {
        line[1:] for line in (PROJECT / ".dockerignore").read_text().splitlines() if line.startswith("!")
    }
    copied = {
        source
        for line in re.findall(r"^COPY (?!--from)(.*)", TEXT, re.MULTILINE)
        for source in line.split()[:-1]
    }
    below = {one for one in copied if any(one.startswith(f"{other}/") for other in copied)}
    assert given == copied - below
    assert all((PROJECT / name).exists() for name in given)
