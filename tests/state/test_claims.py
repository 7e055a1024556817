"""Known claims: few bytes of each are kept, and pods are seen again when their claim changes."""

import gc
import json
import tracemalloc

import pytest

from device_plugin.adapters.kube import decode
from device_plugin.core.contract.claims import FINALIZER, Claim, read_claim
from device_plugin.core.requests import DEFAULT_PREFIXES
from device_plugin.kube.api import RESOURCE_CLAIMS
from device_plugin.state.claims import KnownClaims, ServedClaims
from device_plugin.state.view import ClusterView
from tests.builders.claims import CLASS, claim, claim_pod
from tests.cluster.world import Clock

MANY = 10_000


def taken(known: KnownClaims, texts: list[bytes]) -> int:
    """The bytes that remain in memory after these claims were decoded, seen, and found to say what grants say."""
    gc.collect()
    tracemalloc.start()
    try:
        for text in texts:
            known.see(decode.read(RESOURCE_CLAIMS, text))
        known.settle([claim.key for claim in known.unsettled()])
        # Buffers of watches that other tests have left running are none of the claims.
        others = tracemalloc.Filter(inclusive=False, filename_pattern="*/adapters/http/*")
        return sum(each.size for each in tracemalloc.take_snapshot().filter_traces([others]).traces)
    finally:
        tracemalloc.stop()


def test_ten_thousand_claims_for_other_drivers_take_next_to_no_memory() -> None:
    foreign = claim(deviceClassName="gpu.example.com", selectors=[{"cel": {"expression": "x" * 1000}}])
    texts = [
        json.dumps(
            {**foreign, "metadata": {"name": f"c{n}", "namespace": "default", "uid": f"u{n}"}}
        ).encode()
        for n in range(MANY)
    ]
    known = KnownClaims()
    assert taken(known, texts) < 100_000
    assert known.names() == set()


@pytest.mark.parametrize("given", [True, False], ids=["given", "waits"])
def test_each_claim_of_ours_takes_at_most_300_bytes(*, given: bool) -> None:
    """The names are those of a Deployment's pods, with the claim's name and a suffix."""
    texts = []
    for n in range(MANY):
        made = claim(f"train-5d9c7b8f6d-{n:05}-card-x7k2p", uid=f"0f8fad5b-d9cb-469f-a165-70867728{n:04x}")
        status = {
            "allocation": {
                "devices": {
                    "results": [{"driver": CLASS, "pool": f"node-{n % 100}", "device": "card-0000-19-00-0"}]
                }
            },
            "reservedFor": [{"resource": "pods", "name": "p", "uid": "u" * 36}],
        }
        made["metadata"] |= {"finalizers": [FINALIZER], "resourceVersion": str(10**9 + n)}
        texts.append(json.dumps({**made, "status": status if given else {}}).encode())
    known = KnownClaims()
    assert taken(known, texts) / MANY <= 300
    assert len(known.names()) == MANY
    assert known.unsettled() == []


def test_a_known_claim_is_found_with_what_it_asks_for() -> None:
    known = KnownClaims()
    assert known.see(read_claim(claim(pod_uid="u")))
    assert known.find("default", "slice") == Claim(
        "default", "slice", "uid-slice", "", CLASS, "card", 1, "8Gi", "30", pod="u"
    )
    assert known.find("other", "slice") is None
    assert known.forget("default", "slice")
    assert known.find("default", "slice") is None
    assert not known.forget("default", "slice")


def test_the_version_is_known_while_only_the_allocation_is_left_to_write() -> None:
    known, made = KnownClaims(), claim()
    made["metadata"] |= {"finalizers": [FINALIZER], "resourceVersion": "7"}
    devices = {"devices": {"results": [{"driver": CLASS, "pool": "n", "device": "d"}]}}
    given = {**made, "status": {"allocation": devices}}

    def found() -> tuple[str, bool]:
        kept = known.find("default", "slice")
        assert kept is not None
        return kept.version, kept.protected

    deleted = {**made, "metadata": {**made["metadata"], "deletionTimestamp": "2026-11-21T07:00:00Z"}}
    for object_, version in ((claim(), ""), (made, "7"), (given, ""), (made, "7"), (deleted, "")):
        known.see(read_claim(object_))
        assert found() == (version, bool(version))


@pytest.mark.parametrize("version", ["", "0", "a7", "-7"])
def test_a_claim_whose_version_is_no_number_above_0_is_not_known_as_protected(version: str) -> None:
    """With the version 0 the API server would write without a comparison."""
    known, made = KnownClaims(), claim()
    made["metadata"] |= {"finalizers": [FINALIZER], "resourceVersion": version}
    known.see(read_claim(made))
    kept = known.find("default", "slice")
    assert kept is not None
    assert (kept.version, kept.protected) == ("", False)


def test_only_changes_that_concern_a_pod_are_news() -> None:
    known = KnownClaims()
    made = claim()
    given = {
        **made,
        "status": {"allocation": {"devices": {"results": [{"driver": CLASS, "pool": "n", "device": "d"}]}}},
    }
    assert [known.see(read_claim(each)) for each in (made, made, given, made)] == [True, False, False, True]
    assert known.see(read_claim(claim(uid="another")))
    deleted = claim(uid="another")
    deleted["metadata"]["deletionTimestamp"] = "2026-11-21T07:00:00Z"
    assert known.see(read_claim(deleted))
    found = known.find("default", "slice")
    assert found is not None
    assert found.fault.startswith("it is being deleted")
    assert known.see(read_claim(claim(deviceClassName="gpu.example.com")))
    assert known.find("default", "slice") is None


def view() -> ClusterView:
    made = ClusterView(["hygon.com/dcu"], Clock(), served=ServedClaims("vgpu-scheduler"))
    made.node_news.sync(())
    made.pod_news.sync(())
    made.job_news.sync(())
    return made


def test_nothing_is_placed_before_claims_were_listed() -> None:
    cluster = view()
    assert cluster.why_not_synced() == "not listed yet: claims"
    cluster.claim_news.sync([read_claim(claim())])
    assert cluster.why_not_synced() == ""
    cluster.claim_news.sync([read_claim(claim("other"))])
    assert cluster.claims.names() == {("default", "other")}


def test_while_claims_are_not_known_only_limits_count() -> None:
    view = ClusterView(DEFAULT_PREFIXES, Clock(), served=ServedClaims("vgpu-scheduler"))
    view.claim_news.sync([read_claim(claim())])
    view.pod_news.see(claim_pod("p"), watched=True)
    view.read_claims(known=False)
    assert view.pods.request_of(claim_pod("p")) is None
    view.read_claims(known=True)
    request = view.pods.request_of(claim_pod("p"))
    assert request is not None
    assert request.claims == (("main", "uid-slice"),)


def test_only_pods_of_our_scheduler_are_kept_for_their_claims() -> None:
    cluster = view()
    for made in (claim_pod("ours"), claim_pod("theirs", scheduler="default-scheduler")):
        cluster.pod_news.see(made)
    assert [pod.name for pod in cluster.pods.all()] == ["ours"]
    unserved = ClusterView(["hygon.com/dcu"], Clock())
    unserved.pod_news.see(claim_pod("ours"))
    assert unserved.pods.all() == []


def test_the_pods_that_name_a_claim_are_known_while_they_exist() -> None:
    cluster = view()
    first, second = claim_pod("a", ""), claim_pod("b")
    cluster.pod_news.see(first)
    cluster.pod_news.see(second)
    assert cluster.pods.naming("default", "slice") == ["uid-b"]
    cluster.pod_news.see(claim_pod("a"))
    assert cluster.pods.naming("default", "slice") == ["uid-b", "uid-a"]
    cluster.pod_news.gone("uid-b")
    cluster.pod_news.gone("uid-a")
    assert cluster.pods.naming("default", "slice") == []


def test_a_claim_is_compared_again_only_after_news_of_it() -> None:
    known = KnownClaims()
    given = {
        **claim(),
        "status": {"allocation": {"devices": {"results": [{"driver": CLASS, "pool": "n", "device": "d"}]}}},
    }
    known.see(read_claim(claim()))
    assert known.unsettled() == []
    for _ in range(2):
        known.see(read_claim(given))
        assert [each.key for each in known.unsettled()] == [("default", "slice")]
        known.settle([("default", "slice")])
        assert known.unsettled() == []
    known.see(read_claim(given))
    known.forget("default", "slice")
    assert known.unsettled() == []
