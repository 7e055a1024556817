"""`vgpu copy-library` makes the folder that `vgpu check --image` mounts into a container of the image."""

from pathlib import Path

import pytest

from device_plugin.wiring.commands import main
from vgpu_runtime.paths import CONTAINER_LIBRARY, LIBRARY, LOADS


def test_the_folder_has_the_library_the_program_and_the_preload(native: Path, tmp_path: Path) -> None:
    assert main(["copy-library", "--to", str(tmp_path)]) == 0
    assert {file.name for file in tmp_path.iterdir()} == {LIBRARY.name, LOADS.name, "ld.so.preload"}
    assert (tmp_path / LIBRARY.name).read_bytes() == (native / LIBRARY.name).read_bytes()
    assert (tmp_path / LOADS.name).stat().st_mode & 0o777 == 0o755
    assert (tmp_path / "ld.so.preload").read_text() == f"{CONTAINER_LIBRARY}\n"


def test_a_folder_that_is_missing_is_an_error(
    native: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert native.exists()
    assert main(["copy-library", "--to", str(tmp_path / "none")]) != 0
    assert "the library cannot be copied to" in capsys.readouterr().err
