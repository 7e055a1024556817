"""The files of a release: what is in them, and that equal content gives equal bytes."""

import json
import re
import subprocess
import tarfile
from pathlib import Path

import pytest

from device_plugin.core import annotations
from hack.releases import command, notes, sbom, tarballs
from hack.testbed.images import python


def test_equal_content_gives_equal_bytes(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("content")
    first = tarballs.write(tmp_path / "a.tar.gz", {"b/x": b"1", "a": file}, executable=frozenset({"b/x"}))
    file.touch()
    second = tarballs.write(tmp_path / "b.tar.gz", {"a": file, "b/x": b"1"}, executable=frozenset({"b/x"}))
    assert first.read_bytes() == second.read_bytes()
    with tarfile.open(first) as archive:
        assert [(entry.name, entry.mode, entry.mtime) for entry in archive] == [
            ("a", 0o644, 0),
            ("b/x", 0o755, 0),
        ]


def test_the_chart_is_packed_as_helm_does() -> None:
    names = set(command.chart())
    assert {"vgpu/Chart.yaml", "vgpu/values.yaml", "vgpu/templates/_helpers.tpl"} <= names
    assert all(name.startswith("vgpu/") for name in names)


def test_the_bill_names_all_that_is_locked_once_and_in_the_image() -> None:
    locked = sbom.locked(python.LOCK.read_text())
    assert locked.keys() >= {"grpcio", "msgspec", "pyyaml"}
    bill = json.loads(
        json.dumps(sbom.document("vgpu", "1", "2026-01-01T00:00:00Z", {"libc6": "2.36-9"}, locked))
    )
    ids = [package["SPDXID"] for package in bill["packages"]]
    assert len(set(ids)) == len(ids) == len(locked) + 2
    assert all(re.fullmatch(r"SPDXRef-[A-Za-z0-9.-]+", each) for each in ids)
    contained = {
        each["relatedSpdxElement"] for each in bill["relationships"] if each["relationshipType"] == "CONTAINS"
    }
    assert contained == set(ids) - {"SPDXRef-image"}
    purls = {
        package["externalRefs"][0]["referenceLocator"]
        for package in bill["packages"]
        if "externalRefs" in package
    }
    assert "pkg:deb/debian/libc6@2.36-9?distro=bookworm" in purls
    assert f"pkg:pypi/grpcio@{locked['grpcio']}" in purls


def test_checksums_are_those_of_sha256sum(tmp_path: Path) -> None:
    for name in ("b", "a"):
        (tmp_path / name).write_text(name)
    (tmp_path / "SUMS").write_text(sbom.checksums([tmp_path / "b", tmp_path / "a"]))
    subprocess.run(["sha256sum", "--check", "--strict", "--quiet", "SUMS"], cwd=tmp_path, check=True)


def test_notes_are_by_scope_and_what_has_none_comes_last() -> None:
    found = notes.changes("1.0", ["agent: b", "One thing: and another", "cli, ui: c", "agent: a"])
    assert (
        found
        == "# vgpu 1.0\n\n## agent\n\n- b\n- a\n\n## cli, ui\n\n- c\n\n## other\n\n- One thing: and another\n"
    )


def test_the_present_version_of_annotations_is_in_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    assert f"| {annotations.VERSION} |" in notes.compatibility()
    monkeypatch.setattr(annotations, "VERSION", 99)
    with pytest.raises(LookupError, match="COMPATIBILITY has no line for version 99"):
        notes.compatibility()
