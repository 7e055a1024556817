"""What a Job's pod frees for another Job is kept for it: nobody else gets it, whoever waits longer."""

import json
import time
from functools import partial
from typing import Any

import pytest

from device_plugin.core.contract.annotations import RESIZE
from device_plugin.core.contract.grants import Grant
from device_plugin.core.contract.resize import Resize
from tests.e2e import nodes, service
from tests.e2e.kubectl import Kubectl, KubectlError
from tests.e2e.queued_jobs import pods, queued, running
from tests.e2e.slices import grant, inventory
from tests.e2e.waiting import eventually
from tests.e2e.workloads import container, pod, slice_of

# Only this account writes records; where the engine is not installed it has no rights of its own.
ENGINE = "system:serviceaccount:vgpu-system:vgpu-jobs"


def change(kubectl: Kubectl, name: str, **changed: Any) -> None:
    kubectl("patch", "job", name, "--type=merge", f"--patch={json.dumps(changed)}")


def promises(kubectl: Kubectl) -> list[Any]:
    """The promises for jobs of the test's namespace, as /explain shows them."""
    found = service.explain(service.leader())["promises"]
    return [one for one in found if one["for"].startswith(f"job {kubectl.namespace}/")]


def told(kubectl: Kubectl, name: str, words: str) -> bool:
    return any(words in event for event in kubectl.events(name) if event.startswith("FailedScheduling"))


def test_a_card_that_a_job_gives_up_goes_to_the_job_that_it_was_given_up_for(kubectl: Kubectl) -> None:
    width = len(inventory(nodes.first())["cards"])
    kubectl.create(queued("giver", width), queued("taker", 1, suspend=True))
    assert eventually(lambda: running(kubectl, "giver", width), 60)
    kubectl.create(pod("stranger", container(resources=slice_of(whole=1)), **nodes.on(nodes.first())))
    assert eventually(lambda: told(kubectl, "stranger", "Insufficient hygon.com/dcu"), 30)

    leaving = pods(kubectl, "giver")[-1]["metadata"]["name"]
    now = time.time()
    record = Resize(
        gen=1, before=width, after=width - 1, asked=now, until=now + 300,
        beneficiary=(kubectl.namespace, "taker"), replicas=1,
        grants=[Grant.decode(json.dumps(grant(kubectl, leaving)))],
    )  # fmt: skip
    written = {"annotations": {RESIZE: record.encode()}}
    with pytest.raises(KubectlError, match="only the job engine writes them"):
        change(kubectl, "giver", metadata=written)
    change(Kubectl(kubectl.namespace, ENGINE, ["system:masters"]), "giver", metadata=written)
    assert eventually(lambda: [one["leaving"] for one in promises(kubectl)], 30) == [
        [f"{kubectl.namespace}/{leaving}"]
    ]
    change(kubectl, "giver", spec={"completions": width - 1, "parallelism": width - 1})
    kubectl.gone(leaving)
    assert eventually(lambda: [len(one["kept"]) for one in promises(kubectl)] == [1], 30)
    assert eventually(partial(told, kubectl, "stranger", f"kept for job {kubectl.namespace}/taker"), 30)

    change(kubectl, "taker", spec={"suspend": False})
    assert eventually(lambda: running(kubectl, "taker", 1), 60)
    assert kubectl.phase("stranger") == "Pending"
    assert eventually(lambda: promises(kubectl) == [], 30), promises(kubectl)
    kubectl("delete", "job", "taker")
    kubectl.running("stranger")
