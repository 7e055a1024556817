"""Fetching a userland with a newer HIP, with stand-ins for apt's programs."""

import os
import platform
import re
from pathlib import Path

import pytest

from vgpu_runtime.sim import userlands
from vgpu_runtime.sim.hip import HipUnavailableError
from vgpu_runtime.sim.userlands import USERLANDS

NEWEST = USERLANDS["7.2.4"]
SERVER = "http://server.example/debian"
APT_GET = f"""#!/bin/sh
echo "apt-get $*" >> "$CALLS"
case " $* " in
*" indextargets "*) echo "bookworm {SERVER}" ;;
*" update "*) for word; do case "$word" in Dir::Etc::sourcelist=*) cp "${{word#*=}}" "$CALLS.sources" ;; esac; done
    exit "${{UPDATE_STATUS:-0}}" ;;
*" install "*) echo "Inst libc6 (2.44-3 Debian:experimental [amd64])"
    echo "Inst libamdhip64-7 (${{OFFERED:-7.2.4-1}} Debian:experimental [amd64])" ;;
*" download "*) touch libamdhip64-7_7.2.4-1_amd64.deb libc6_2.44-3_amd64.deb ;;
esac
"""
DPKG_DEB = """#!/bin/sh
mkdir -p "$3/usr/lib/x" "$3/usr/lib64"
case "$2" in
*libamdhip64*) touch "$3/usr/lib/x/libamdhip64.so.7" ;;
*libc6*) touch "$3/usr/lib/x/ld-linux-x86-64.so.2" ;;
esac
"""


@pytest.fixture
def calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Stand-ins first on PATH; the file with the calls of apt-get."""
    for name, text in (("apt-get", APT_GET), ("dpkg-deb", DPKG_DEB)):
        program = tmp_path / "bin" / name
        program.parent.mkdir(exist_ok=True)
        program.write_text(text)
        program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    monkeypatch.setenv("CALLS", str(tmp_path / "calls"))
    monkeypatch.setattr(platform, "freedesktop_os_release", lambda: {"VERSION_CODENAME": "bookworm"})
    return tmp_path / "calls"


def test_fetched_once_with_its_own_libc(calls: Path, tmp_path: Path) -> None:
    root = userlands.ensure(tmp_path / "cache", NEWEST)
    assert root.libraries == root.folder / "usr/lib/x"
    assert root.command("/opt/program", "info") == [
        str(root.loader), "--library-path", str(root.libraries), "/opt/program", "info"
    ]  # fmt: skip
    assert (root.folder / "lib64").readlink() == Path("usr/lib64")
    before = calls.read_text()
    assert userlands.ensure(tmp_path / "cache", NEWEST) == root
    assert calls.read_text() == before
    assert [path.name for path in (tmp_path / "cache").iterdir()] == ["hip-7.2.4-experimental"]


def test_its_packages_come_from_the_machines_server_in_the_versions_that_apt_chose(
    calls: Path, tmp_path: Path
) -> None:
    userlands.ensure(tmp_path / "cache", NEWEST)
    sources = Path(f"{calls}.sources").read_text()
    assert sources == f"deb {SERVER} experimental main\ndeb {SERVER} sid main\n"
    plan, download = (
        line for line in calls.read_text().splitlines() if re.search(" install | download ", line)
    )
    assert "--target-release experimental install libamdhip64-7" in plan
    assert download.endswith(" download libamdhip64-7=7.2.4-1 libc6=2.44-3")
    assert all("Dir::State=" in line for line in calls.read_text().splitlines() if "indextargets" not in line)


@pytest.mark.parametrize(
    ("variable", "value", "says"),
    [
        ("OFFERED", "7.3.0-1", r"Debian experimental has HIP 7\.3\.0-1, not 7\.2\.4"),
        ("UPDATE_STATUS", "100", r"HIP 7\.2\.4 of Debian experimental: fetching package lists failed .* run apt-get"),
    ],
)  # fmt: skip
def test_what_is_not_there_is_said(
    calls: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str, value: str, says: str
) -> None:
    monkeypatch.setenv(variable, value)
    with pytest.raises(HipUnavailableError, match=says):
        userlands.ensure(tmp_path / "cache", NEWEST)
    assert list((tmp_path / "cache").iterdir()) == []
    assert calls.exists()


def test_a_machine_without_debians_server_says_so(
    calls: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(platform, "freedesktop_os_release", lambda: {"VERSION_CODENAME": "noble"})
    with pytest.raises(HipUnavailableError, match="apt names no server of packages of noble"):
        userlands.ensure(tmp_path / "cache", NEWEST)
    assert "update" not in calls.read_text()
