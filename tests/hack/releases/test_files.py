"""The files of a release: what is in them, and that equal content gives equal bytes."""

import json
import subprocess
import tarfile
from pathlib import Path

import pytest
from spdx_tools.spdx.parser.json.json_parser import parse_from_file
from spdx_tools.spdx.validation.document_validator import validate_full_spdx_document

from device_plugin.core.contract import annotations
from hack.releases import command, images, krew, notes, sbom, tarballs
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
    assert "vgpu/boards/cluster.json" in names
    assert all(name.startswith("vgpu/") for name in names)


def test_the_bill_names_what_each_product_contains_and_a_validator_accepts_it(tmp_path: Path) -> None:
    parts = {
        "vgpu": [*sbom.debian({"libc6": "2.36-9+deb12u1"}), *sbom.locked(python.LOCK, [python.VERSION])],
        "kubectl-vgpu": sbom.locked(krew.LOCK, krew.PYTHONS),
    }
    (tmp_path / "bill.spdx.json").write_text(json.dumps(sbom.document("1", "2026-01-01T00:00:00Z", parts)))
    bill = parse_from_file(str(tmp_path / "bill.spdx.json"))
    assert not validate_full_spdx_document(bill)
    names = {each.spdx_id: each.name for each in bill.packages}
    contained: dict[str, set[str]] = {}
    for each in bill.relationships:
        if each.relationship_type.name == "CONTAINS":
            contained.setdefault(names[each.spdx_element_id], set()).add(
                names[str(each.related_spdx_element_id)]
            )
    assert contained == {product: {part.name for part in found} for product, found in parts.items()}
    assert contained["vgpu"] >= {"libc6", "grpcio", "msgspec", "pyyaml"}
    assert contained["kubectl-vgpu"] >= {"kubernetes", "msgspec", "numpy"}
    purls = {each.external_references[0].locator for each in bill.packages if each.external_references}
    assert "pkg:deb/debian/libc6@2.36-9%2Bdeb12u1?distro=bookworm" in purls
    assert len(purls) == len({part for found in parts.values() for part in found})


def test_a_package_of_another_python_is_not_in_the_bill(tmp_path: Path) -> None:
    lock = tmp_path / "x.lock"
    lock.write_text(
        "a==1 ; python_full_version < '3.12' \\\n    --hash=sha256:0\n"
        "a==2 ; python_full_version >= '3.12' \\\n    --hash=sha256:0\n"
        "b==3 ; sys_platform == 'win32' \\\n    --hash=sha256:0\nc==4 \\\n    --hash=sha256:0\n"
    )

    def found(*pythons: str) -> list[str]:
        return [f"{each.name}{each.version}" for each in sbom.locked(lock, pythons)]

    assert found("3.11") == ["a1", "c4"]
    assert found("3.11", "3.13") == ["a1", "a2", "c4"]


def test_checksums_are_those_of_sha256sum(tmp_path: Path) -> None:
    for name in ("b", "a"):
        (tmp_path / name).write_text(name)
    (tmp_path / "SUMS").write_text(sbom.checksums([tmp_path / "b", tmp_path / "a"]))
    subprocess.run(["sha256sum", "--check", "--strict", "--quiet", "SUMS"], cwd=tmp_path, check=True)


def test_what_a_release_lacks_is_said_with_what_would_add_it() -> None:
    (manifest, scheduler) = command.left_out(None, None)
    assert "krew.yaml" in manifest
    assert "--url" in manifest
    assert f"docker pull {images.scheduler()}" in scheduler
    assert not [*command.left_out("https://example.com", Path("x"))]


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
