"""Jobs of one priority: what each gives to others, its turn after a stop, and the cards that are kept for one.

The lane's engine has short times: `quantumSeconds` and `youngSeconds`. A Job is due after hours, which no setting
changes: the tests write into its record that it was stopped ten hours ago.
"""

import time
from dataclasses import replace
from functools import partial
from typing import Any

from device_plugin.core.contract.annotations import RESIZE, RESUMABLE
from device_plugin.core.contract.resize import Resize
from device_plugin.core.jobs.rules import HOUR, Rules
from device_plugin.kube.api import JOBS
from tests.e2e import nodes
from tests.e2e.conftest import in_own_namespace
from tests.e2e.kubectl import Kubectl
from tests.e2e.queued_jobs import elastic, pods, queued, queued_on, running
from tests.e2e.slices import inventory
from tests.e2e.test_job_engine import recorded, told
from tests.e2e.test_job_faults import ACCOUNT
from tests.e2e.test_why import vgpu
from tests.e2e.waiting import eventually
from tests.e2e.workloads import container, slice_of
from tests.requirement import require

SECONDS = 120
LONG_AGO = 10 * HOUR
# Card-seconds of service after which a Job counts as a long one.
SERVICE = 100 * HOUR


def test_a_job_is_stopped_for_an_equal_one_only_if_it_is_resumable(kubectl: Kubectl) -> None:
    cards = len(inventory(nodes.first())["cards"])
    kubectl.create(queued("rigid", cards - 2), elastic("wide", 1, 2))
    assert eventually(partial(running, kubectl, "rigid", cards - 2), SECONDS)
    assert eventually(partial(running, kubectl, "wide", 2), SECONDS)
    before = state(kubectl, "rigid")

    kubectl.create(queued("newer", 1))
    assert eventually(partial(running, kubectl, "newer", 1), SECONDS), "within its bounds a Job gives"
    assert gave(kubectl, "wide") == (2, 1, "newer")
    kubectl.create(queued("late", 1))
    rewrite(kubectl, "late", asked_earlier=LONG_AGO)

    def seen() -> bool:
        return why(kubectl, "late", "It is due, ") or running(kubectl, "late", 1)

    assert eventually(seen, SECONDS), "a round took it for one that is due"
    assert state(kubectl, "rigid") == before, "it consented to nothing"
    assert kubectl.get(JOBS, "late")["spec"]["suspend"]
    assert running(kubectl, "wide", 1), "it is at its minimum"
    assert running(kubectl, "newer", 1)

    # Only its consent was missing.
    kubectl("annotate", "job", "rigid", f"{RESUMABLE}=true")
    assert eventually(partial(running, kubectl, "late", 1), SECONDS)
    assert gave(kubectl, "rigid") == (cards - 2, 0, "late")
    assert eventually(
        partial(why, kubectl, "rigid", f"was stopped for job {kubectl.namespace}/late"), SECONDS
    )
    assert eventually(partial(told, kubectl, f"stops for job {kubectl.namespace}/late", "rigid"), 30)


def test_a_job_that_was_stopped_for_too_long_comes_back_and_keeps_its_turn(
    kubectl: Kubectl, important: str
) -> None:
    """Two Jobs are alike but for how long they were stopped; a newer one gets the cards of the other."""
    cards = len(inventory(nodes.first())["cards"])
    half = cards // 2
    for name in ("kept", "other"):
        made = queued(name, half)
        made["metadata"]["annotations"] = {RESUMABLE: "true"}
        kubectl.create(made)
        assert eventually(partial(running, kubectl, name, half), SECONDS)
    high = queued("high", 2 * half)
    high["spec"]["template"]["spec"]["priorityClassName"] = important
    kubectl.create(high)
    assert eventually(partial(running, kubectl, "high", 2 * half), SECONDS)
    stopped = f"was stopped for job {kubectl.namespace}/high, and waits for room"
    for name in ("kept", "other"):
        assert gave(kubectl, name) == (half, 0, "high")
        assert eventually(partial(why, kubectl, name, stopped), SECONDS)

    rewrite(kubectl, "other", attained=SERVICE)
    rewrite(kubectl, "kept", attained=SERVICE, asked_earlier=LONG_AGO)
    assert eventually(partial(why, kubectl, "kept", "It is due"), SECONDS)
    kubectl("delete", "job", "high", "--cascade=foreground")
    for name in ("kept", "other"):
        assert eventually(partial(running, kubectl, name, half), SECONDS)
    record = recorded(kubectl, "kept")
    assert record is not None
    assert record.stopped_for >= Rules().stop_s
    before = state(kubectl, "kept")

    kubectl.create(queued("newer", half))
    assert eventually(partial(running, kubectl, "newer", half), SECONDS)
    assert state(kubectl, "kept") == before, "its turn is as long as its stop"
    assert gave(kubectl, "other") == (half, 0, "newer")


def test_jobs_of_one_card_start_beside_the_node_that_is_kept_for_one_that_is_due(kubectl: Kubectl) -> None:
    require(len(nodes.names()) > 1, "needs a second node")
    first, second = nodes.names()[:2]
    cards = len(inventory(first)["cards"])
    idle = len(inventory(second)["cards"]) - 2
    kubectl.create(queued_on(first, "short", 1), queued_on(second, "long", 2))
    assert eventually(partial(running, kubectl, "short", 1), SECONDS)
    assert eventually(partial(running, kubectl, "long", 2), SECONDS)
    # In another namespace: of its own Jobs that have run for longer than a quantum it would wait for none.
    with in_own_namespace() as other:
        other.create(anywhere("whole", container(resources=slice_of(whole=cards))))
        rewrite(other, "whole", asked_earlier=LONG_AGO)
        assert eventually(partial(why, other, "whole", f"cards are kept for it on {first}, "), SECONDS)

        names = [f"small-{number}" for number in range(idle + 1)]
        kubectl.create(*(anywhere(name) for name in names))
        *fitting, last = names
        for name in fitting:
            assert eventually(partial(running, kubectl, name, 1), SECONDS)
            assert pods(kubectl, name)[0]["spec"]["nodeName"] == second
        assert eventually(partial(told, kubectl, "JobWaits: waits for room for 1 pod", last), SECONDS), (
            f"{cards - 1} cards of {first} are idle, and kept"
        )
        kubectl("delete", "job", "short", "--cascade=foreground")
        assert eventually(partial(running, other, "whole", 1), SECONDS)
        assert pods(other, "whole")[0]["spec"]["nodeName"] == first
        assert kubectl.get(JOBS, last)["spec"]["suspend"]


def anywhere(name: str, *containers: dict[str, Any]) -> dict[str, Any]:
    """A Job of one pod that may run on any node."""
    made = queued(name, 1, *containers)
    del made["spec"]["template"]["spec"]["nodeSelector"]
    return made


def rewrite(kubectl: Kubectl, name: str, attained: float = 0.0, asked_earlier: float = 0.0) -> None:
    """Write as the engine that the Job stopped so many seconds earlier, and had this service; it may be new."""
    now = time.time()
    last = recorded(kubectl, name) or Resize(gen=1, before=1, after=0, asked=now, until=now)
    asked = last.asked - asked_earlier
    record = replace(
        last, gen=last.gen + 1, asked=asked, until=asked, attained=attained, applied=True, grants=()
    )
    engine = Kubectl(kubectl.namespace, ACCOUNT)
    engine("annotate", "--overwrite", "job", name, f"{RESIZE}={record.encode()}")


def gave(kubectl: Kubectl, name: str) -> tuple[int, int, str]:
    """The widths of the Job before and after its last change, and the Job of its namespace that it was for."""
    record = recorded(kubectl, name)
    assert record is not None
    namespace, helped = record.beneficiary or ("", "")
    assert namespace in ("", kubectl.namespace)
    return record.before, record.after, helped


def state(kubectl: Kubectl, name: str) -> tuple[Resize | None, list[str]]:
    """The record of the Job, and the UIDs of its pods."""
    return recorded(kubectl, name), [each["metadata"]["uid"] for each in pods(kubectl, name)]


def why(kubectl: Kubectl, name: str, words: str) -> bool:
    """True if `vgpu why` says this of the Job."""
    status, said = vgpu("why", f"job/{name}", "-n", kubectl.namespace)
    print(said)
    return status == 0 and words in said
