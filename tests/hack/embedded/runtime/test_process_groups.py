"""Which pods have live processes, as the agent of the one-machine cluster reads it."""

import os
import subprocess
from pathlib import Path

from hack.embedded.runtime.process_groups import LiveGroups

UID, OTHER = "11111111-1111-1111-1111-111111111111", "22222222-2222-2222-2222-222222222222"


def test_a_process_group_file_counts_only_while_its_group_exists(tmp_path: Path) -> None:
    folder = tmp_path / f"pod{UID}"
    folder.mkdir()
    groups = LiveGroups(tmp_path)
    assert not groups.live(UID)
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE, start_new_session=True) as process:
        (folder / "main").write_text(f"{process.pid}\n")
        assert groups.live(UID)
        assert not groups.live(OTHER)
        process.communicate()
    assert not groups.live(UID)


def test_garbage_in_a_process_group_file_is_no_process(tmp_path: Path) -> None:
    folder = tmp_path / f"pod{UID}"
    folder.mkdir()
    (folder / "main").write_text("what\n")
    assert not LiveGroups(tmp_path).live(UID)
    (folder / "main").write_text(f"{os.getpgid(0)}\n")
    assert LiveGroups(tmp_path).live(UID)
