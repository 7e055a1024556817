"""Fetching the HIP runtime, with stand-ins for apt's programs."""

import os
import stat
from pathlib import Path

import pytest

from vgpu_runtime.sim import hip

APT_GET = """#!/bin/sh
echo "apt-get $*" >> "$CALLS"
case " $* " in
*" update "*) exit "${UPDATE_STATUS:-0}" ;;
*" install "*) echo "Inst libllvm15 (1:15)"; echo "Inst libc6 (2.36)"; echo "Conf libllvm15" ;;
*" download "*) touch "libamdhip64-5_${HIP_VERSION:-5.2.3-8}_amd64.deb" libelf1_0.188_amd64.deb ;;
esac
"""
APT_CACHE = """#!/bin/sh
exit "${SHOW_STATUS:-0}"
"""
DPKG_DEB = """#!/bin/sh
mkdir -p "$3/usr/lib/x"
case "$2" in *libamdhip64*) touch "$3/usr/lib/x/libamdhip64.so.5" ;; esac
"""


@pytest.fixture
def apt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Stand-ins first on PATH; the file with the calls of apt-get."""
    for name, text in (("apt-get", APT_GET), ("apt-cache", APT_CACHE), ("dpkg-deb", DPKG_DEB)):
        program = tmp_path / "bin" / name
        program.parent.mkdir(exist_ok=True)
        program.write_text(text)
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    monkeypatch.setenv("CALLS", str(tmp_path / "calls"))
    return tmp_path / "calls"


def test_fetched_once_and_whole(apt: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    folder = hip.ensure(cache)
    assert (folder / "libamdhip64.so.5").exists()
    calls = apt.read_text()
    assert hip.ensure(cache) == folder
    assert apt.read_text() == calls
    assert [path.name for path in cache.iterdir()] == ["hip-5.2.3"]


def test_two_that_fetch_at_once_get_the_same(
    apt: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = tmp_path / "cache"
    fetch = hip._fetch

    def overtaken(scratch: Path) -> Path:
        root = fetch(scratch)
        monkeypatch.setattr(hip, "_fetch", fetch)
        hip.ensure(cache)  # another is first
        return root

    monkeypatch.setattr(hip, "_fetch", overtaken)
    assert hip.ensure(cache) == hip.ensure(cache)
    assert [path.name for path in cache.iterdir()] == ["hip-5.2.3"]
    assert apt.read_text().count(" download ") == 2


def test_what_the_machine_lacks_comes_too_but_never_another_libc(apt: Path, tmp_path: Path) -> None:
    hip.ensure(tmp_path / "cache")
    (download,) = [line.split() for line in apt.read_text().splitlines() if " download " in line]
    assert {"libamdhip64-5", "libhsakmt1", "libllvm15"} < set(download)
    assert "libc6" not in download


def test_package_lists_of_its_own_where_the_machine_has_none(
    apt: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHOW_STATUS", "100")
    hip.ensure(tmp_path / "cache")
    assert "update" in apt.read_text()
    assert all("Dir::State=" in line for line in apt.read_text().splitlines())


def test_another_version_is_refused(apt: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HIP_VERSION", "5.7.1-1")
    with pytest.raises(hip.HipUnavailableError, match=r"offer HIP 5\.7\.1-1, not 5\.2\.3"):
        hip.ensure(tmp_path / "cache")
    assert list((tmp_path / "cache").iterdir()) == []
    assert apt.exists()


def test_a_failure_says_what_failed(apt: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOW_STATUS", "100")
    monkeypatch.setenv("UPDATE_STATUS", "100")
    with pytest.raises(hip.HipUnavailableError, match="fetching package lists failed with status 100"):
        hip.ensure(tmp_path / "cache")
    assert list((tmp_path / "cache").iterdir()) == []
    assert apt.exists()


def test_without_apt_it_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(hip.HipUnavailableError, match="apt-get and dpkg-deb not found"):
        hip.ensure(tmp_path / "cache")
