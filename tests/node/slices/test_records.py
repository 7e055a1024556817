"""Records on the disk."""

from pathlib import Path

from device_plugin.core.contract.grants import Slice
from device_plugin.node.slices.records import Records
from tests.node.found import record


def test_a_folder_without_a_record_was_never_mounted_and_goes(tmp_path: Path) -> None:
    records = Records(tmp_path)
    records.put(record("good", Slice("GPU-1", 1, (0,))))
    records.put(record("bad", Slice("GPU-1", 1, (1,))))
    (records.folder("bad", "main") / "record.json").unlink()
    again = Records(tmp_path)
    again.load()
    assert [r.pod for r in again.all()] == ["good"]
    assert not (tmp_path / "slices/bad").exists()
