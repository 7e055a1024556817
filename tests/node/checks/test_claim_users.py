"""Mounts of all pods' processes show whether the files of a claim's container are still in use."""

import pytest
from msgspec.structs import replace

from device_plugin.node.checks.claim_users import LOOK_SECONDS, ClaimUsers
from tests.node.found import record
from tests.node.parts import Host

RECORD = replace(record("uid-a"), claim="claim-uid")
OURS = "11 10 8:1 /var/lib/vgpu/slices/uid-a/main/vgpu.conf /etc/vgpu/vgpu.conf ro - ext4 sda ro\n"
OTHERS = "11 10 8:1 /var/lib/vgpu/slices/uid-b/main/vgpu.conf /etc/vgpu/vgpu.conf ro - ext4 sda ro\n"


class Machine(Host):
    """A host of which the test says what is mounted; the time is `now`."""

    def users(self) -> ClaimUsers:
        return ClaimUsers(self, lambda: self.now)

    now = 0.0


@pytest.mark.parametrize(("mounts", "used"), [(OURS, True), (OTHERS, False), ("", False)])
def test_a_pod_uses_a_claim_whose_files_it_has_mounted(mounts: str, used: bool) -> None:
    host = Machine({"uid-c": {7: "1 0 8:1 / / rw - ext4 sda rw\n" + mounts}})
    assert host.users().using(RECORD) == used


def test_mounts_that_cannot_be_read_whole_may_be_any() -> None:
    host = Machine({"uid-c": {7: OTHERS}}, whole=False)
    assert host.users().using(RECORD)


def test_without_the_hosts_processes_every_claim_counts_as_used(monkeypatch: pytest.MonkeyPatch) -> None:
    host = Machine()

    def away() -> None:
        raise FileNotFoundError("/proc")

    monkeypatch.setattr(host, "look", away)
    assert host.users().using(RECORD)


def test_all_mounts_are_read_once_in_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    host = Machine({"uid-c": {7: OURS}})
    users = host.users()
    assert all(users.using(RECORD) for _ in range(20))
    assert host.looks == 1
    host.mounted.clear()
    monkeypatch.setattr(host, "now", LOOK_SECONDS)
    assert not users.using(RECORD)
