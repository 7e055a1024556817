"""The folder of a node's containerd begins as a copy of one that has the images."""

from pathlib import Path

from hack.testbed import archives


def test_a_node_shares_files_but_has_databases_of_its_own(tmp_path: Path) -> None:
    imported, mine = tmp_path / "imported", tmp_path / "n1/containerd"
    for file in ("content/blobs/1", "bolt/meta.db"):
        (imported / file).parent.mkdir(parents=True)
        (imported / file).write_text("as imported")
    mine.parent.mkdir()
    archives.copy(imported, mine)
    assert (mine / "content/blobs/1").samefile(imported / "content/blobs/1")
    with (mine / "bolt/meta.db").open("r+") as database:
        database.write("changed in place")
    assert (imported / "bolt/meta.db").read_text() == "as imported"
