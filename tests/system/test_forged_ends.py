"""A forged end through the whole system, where the policy that refuses it is not installed."""

from pathlib import Path

import pytest

from hack.embedded import cluster
from hack.embedded.apiserver.server import policy_files
from hack.embedded.cluster import Options
from hack.embedded.person import phase
from hack.measure.one_machine import one_machine
from hack.measure.random_pods import FAMILY, FLAGS
from tests.builders import objects
from tests.contract.cluster import PODS, Cluster
from tests.deadline import eventually
from vgpu_runtime import sim

pytestmark = pytest.mark.usefixtures("native")

# The agent reports a container that cannot start after 30 s.
SECONDS = 120.0
CARDS = "version: v1\ncards:\n  - {preset: amd-60cu-16gib, count: 2}\n"
WHOLE = {f"{FAMILY}-mem": "16", f"{FAMILY}-cores": "60"}


def unguarded() -> list[Path]:
    return [path for path in policy_files() if path.name != "ends.yaml"]


def test_the_container_that_runs_keeps_its_slice_and_the_pod_that_waits_for_it_goes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The forged phase stays: the kubelet of this cluster does not write again that the pod runs."""
    monkeypatch.setattr(cluster, "policy_files", unguarded)
    with one_machine({"n": sim.parse(CARDS)}, Options(flags=FLAGS)) as (made, person):
        person.create(objects.pod("victim", WHOLE, terminationGracePeriodSeconds=1))
        assert eventually(lambda: [phase(each) for each in person.pods()] == ["Running"], SECONDS)
        api = Cluster(made.api.url.removeprefix("http://"), {"admin": {}})
        grant = api.get(f"{PODS}/victim").body["metadata"]["annotations"]["vgpu.io/grant"]
        card = grant.partition('"card":"')[2].partition('"')[0]
        chosen = {"annotations": {"vgpu.io/card-uuid": card}}
        person.create(objects.pod("newcomer", WHOLE, chosen, terminationGracePeriodSeconds=1))

        def took_it() -> bool:
            """Forge the end; the slice is free from then on until the agent reports the container."""
            for said in ("Running", "Failed"):
                assert api.patch(f"{PODS}/victim/status", {"status": {"phase": said}}).code == 200
            return eventually(lambda: "nodeName" in api.get(f"{PODS}/newcomer").body["spec"], 5)

        assert eventually(took_it, SECONDS)
        assert eventually(lambda: len(person.pods()) == 1, SECONDS)
        assert any("because default/victim still runs on its slice" in e for e in person.events("newcomer"))
        assert [each["metadata"]["name"] for each in person.pods()] == ["victim"]
        api.close()
