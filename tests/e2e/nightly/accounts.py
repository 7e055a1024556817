"""Compares all accounts of what pods hold: grants, claims, records on the nodes, and the leader's ledger."""

from device_plugin.core.contract.annotations import GRANT
from device_plugin.core.contract.grants import Grant
from tests.e2e import service
from tests.e2e.claims import CLAIMS, device_uuids, devices
from tests.e2e.kubectl import Kubectl
from tests.e2e.slices import check_disjoint, held
from tests.e2e.waiting import eventually


def check_accounts(kubectl: Kubectl) -> None:
    """Assert that all accounts agree about the running pods of the namespace, the only pods with slices.

    Each pod has one container `main` with one slice, by a claim or by limits.
    """
    pods = {pod["metadata"]["name"]: pod for pod in kubectl.items()}
    claims = {found["metadata"]["uid"]: found for found in kubectl.items(CLAIMS)}
    records = {name: held(kubectl, name) for name in pods}
    check_disjoint([slice_ for slices in records.values() for slice_ in slices])
    known, ledger, used = device_uuids(), list[tuple[str, str, str]](), set[str]()
    for name, pod in pods.items():
        grant, uid = Grant.decode(pod["metadata"]["annotations"][GRANT]), pod["metadata"]["uid"]
        (slice_,), (record,) = grant.containers["main"], records[name]
        assert (record.card, record.mem_bytes >> 20) == (slice_.card, slice_.mem_mib)
        assert record.units == frozenset(slice_.cores), "a core group has one unit"
        ledger.append((slice_.card, uid, "main"))
        for claim in grant.claims.values():
            used.add(claim)
            (shown,) = devices(claims[claim])
            assert known[shown["pool"], shown["device"]] == slice_.card
            assert [each["uid"] for each in claims[claim]["status"]["reservedFor"]] == [uid]
    assert {claim for claim, found in claims.items() if devices(found)} == used
    assert eventually(lambda: service.held(service.leader()) == sorted(ledger), 60)
