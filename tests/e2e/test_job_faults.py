"""What goes wrong in the middle of a change of the job engine's: its own end, its API server's, and what users do.

An admission policy of the tests refuses the write after the one in question, so the engine has done exactly that much.
"""

from collections.abc import Callable, Iterator
from functools import partial

import pytest

from device_plugin.core.contract.annotations import CHECKPOINT, CHECKPOINT_SECONDS, RESIZE
from device_plugin.core.contract.resize import Resize
from device_plugin.kube.api import JOBS, PODS, Kind, Ref
from tests.e2e import nodes
from tests.e2e.conftest import NAMESPACES
from tests.e2e.kubectl import Kubectl, KubectlError, api
from tests.e2e.machines import Machines, all_ready
from tests.e2e.queued_jobs import elastic, kill_engine, one_card, pods, queued, running
from tests.e2e.slices import inventory
from tests.e2e.waiting import eventually, within
from tests.pages import documents

SECONDS = 120
ACCOUNT = "system:serviceaccount:vgpu-system:vgpu-jobs"
# A label of the test's namespace: which of the engine's writes is refused there.
HELD = "held-back"
ASK, WIDTH, START = "ask", "width", "start"
REFUSED = {
    ASK: 'request.resource.resource == "pods"',
    WIDTH: 'request.resource.resource == "jobs" && object.spec.parallelism != oldObject.spec.parallelism',
    START: 'request.resource.resource == "jobs" && oldObject.spec.suspend && !object.spec.suspend',
}
POLICIES = Kind(
    "admissionregistration.k8s.io", "v1", "validatingadmissionpolicies", "ValidatingAdmissionPolicy", dict
)
BINDINGS = Kind(
    "admissionregistration.k8s.io",
    "v1",
    "validatingadmissionpolicybindings",
    "ValidatingAdmissionPolicyBinding",
    dict,
)


@pytest.fixture
def hold(kubectl: Kubectl, machines: Machines) -> Iterator[Callable[[str], None]]:
    """Refuses one kind of the engine's writes in the test's namespace; none if it is called with an empty text."""
    assert machines, "kills processes of the cluster"
    name = f"hold-{kubectl.namespace}"
    of = "namespaceObject.metadata.labels"
    held = " || ".join(
        f'({of}["{HELD}"] == "{which}" && {expression})' for which, expression in REFUSED.items()
    )
    rules = [
        {"apiGroups": [group], "apiVersions": ["v1"], "operations": ["UPDATE"], "resources": resources}
        for group, resources in (("batch", ["jobs"]), ("", ["pods/status"]))
    ]
    api().create(POLICIES, {
        "metadata": {"name": name},
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": {"resourceRules": rules},
            "matchConditions": [
                {"name": "the-engine", "expression": f'request.userInfo.username == "{ACCOUNT}"'}
            ],
            "validations": [
                {"expression": f'!("{HELD}" in {of} && ({held}))', "reason": "Forbidden", "message": HELD}
            ],
        },
    })  # fmt: skip
    selector = {"matchLabels": {"kubernetes.io/metadata.name": kubectl.namespace}}
    api().create(BINDINGS, {
        "metadata": {"name": name},
        "spec": {
            "policyName": name, "validationActions": ["Deny"], "matchResources": {"namespaceSelector": selector}
        },
    })  # fmt: skip

    def chosen(which: str) -> None:
        change = {"metadata": {"labels": {HELD: which or None}}}
        api().patch(NAMESPACES, Ref(kubectl.namespace), change)

    yield chosen
    for kind in (BINDINGS, POLICIES):
        api().delete(kind, Ref(name))


def test_whichever_write_was_its_last_the_change_is_finished_and_no_card_is_given_twice(
    kubectl: Kubectl, hold: Callable[[str], None]
) -> None:
    cards = len(inventory(nodes.first())["cards"])
    kubectl.create(saving("wide", 1, cards))
    assert eventually(partial(running, kubectl, "wide", cards), SECONDS)
    hold(WIDTH)
    assert eventually(partial(refused, kubectl), SECONDS), "the policy works"

    # The record; the request for a checkpoint; both numbers, and the start of the other Job.
    for number, (held, last) in enumerate(((ASK, recorded), (WIDTH, asked), (START, narrowed)), 1):
        name = f"small-{number}"
        hold(held)
        before = generation(kubectl)
        kubectl.create(queued(name, 1))
        assert look(kubectl, cards, partial(last, kubectl, before, cards - number)), name
        kill_engine()
        hold("")
        assert look(kubectl, cards, lambda name=name: not suspended(kubectl, name)), name  # type: ignore[misc]
        if held == START:
            kill_engine()
        assert look(kubectl, cards, partial(running, kubectl, name, 1)), name
        assert width(kubectl) == cards - number
    assert not any("reported none" in event for event in kubectl.events("wide")), "its answers were heard"

    # The record of a growth.
    before = generation(kubectl)
    hold(WIDTH)
    kubectl("delete", "job", *(f"small-{number}" for number in (1, 2, 3)), "--cascade=foreground")
    assert eventually(partial(recorded, kubectl, before, 1), SECONDS)
    kill_engine()
    hold("")
    assert eventually(partial(running, kubectl, "wide", cards), SECONDS)


def test_who_changes_a_job_in_mid_shrink_wins(kubectl: Kubectl, hold: Callable[[str], None]) -> None:
    cards = len(inventory(nodes.first())["cards"])
    kubectl.create(elastic("wide", 1, cards))
    assert eventually(partial(running, kubectl, "wide", cards), SECONDS)
    hold(WIDTH)
    assert eventually(partial(refused, kubectl), SECONDS), "the policy works"

    begin_shrink(kubectl, "first")
    change(kubectl, parallelism=cards - 2, completions=cards - 2)
    assert look(kubectl, cards, partial(running, kubectl, "first", 1))
    hold("")
    assert not within(lambda: width(kubectl) != cards - 2, 3), "its width is its user's"

    hold(WIDTH)
    kubectl.create(queued("second", 1))
    assert eventually(partial(running, kubectl, "second", 1), SECONDS)
    begin_shrink(kubectl, "third")
    kubectl("delete", "job", "wide", "--cascade=foreground")
    assert eventually(partial(running, kubectl, "third", 1), SECONDS), "what the Job leaves is enough"


def test_a_change_goes_on_though_the_api_server_was_away(kubectl: Kubectl, machines: Machines) -> None:
    cards = len(inventory(nodes.first())["cards"])
    kubectl.create(elastic("wide", 1, cards))
    assert eventually(partial(running, kubectl, "wide", cards), SECONDS)
    begin_shrink(kubectl, "small")
    machines.order("control-plane", "kill", "kube-apiserver")
    machines.order("control-plane", "start", "kube-apiserver")
    assert eventually(all_ready, SECONDS)
    assert look(kubectl, cards, partial(running, kubectl, "small", 1))
    assert width(kubectl) == cards - 1


def begin_shrink(kubectl: Kubectl, name: str) -> None:
    """Let the Job wide begin to make room for another one."""
    before = generation(kubectl)
    kubectl.create(queued(name, 1))
    assert eventually(lambda: generation(kubectl) > before, SECONDS), name


def change(kubectl: Kubectl, **fields: object) -> None:
    """A user changes the Job wide."""
    api().patch(JOBS.json, Ref("wide", kubectl.namespace), {"spec": fields})


def saving(name: str, least: int, most: int) -> dict[str, object]:
    """An elastic Job whose program answers requests for a checkpoint, as docs/jobs.md shows it."""
    (page,) = (found for _, found in documents() if found.get("metadata", {}).get("name") == "slow")
    shown = page["spec"]["template"]["spec"]
    (program,) = shown["containers"][0]["args"]
    program = program.replace("./train", "sleep 100000").replace("./save", "true")
    made = elastic(
        name, least, most,
        one_card(command=("sh", "-c", program), volumeMounts=shown["containers"][0]["volumeMounts"]),
        **{CHECKPOINT_SECONDS: "600"},
    )  # fmt: skip
    made["spec"]["template"]["spec"]["volumes"] = shown["volumes"]
    return made


def look(kubectl: Kubectl, cards: int, found: Callable[[], bool]) -> bool:
    """True once `found` is; until then no more pods may run or leave than there are cards."""

    def widths() -> dict[str, int]:
        jobs = [job for job in kubectl.items(JOBS) if not job["spec"]["suspend"]]
        return {job["metadata"]["name"]: job["spec"]["parallelism"] for job in jobs}

    def and_no_card_is_given_twice() -> bool:
        before = widths()
        leaving = sum(
            "deletionTimestamp" in pod["metadata"] and pod["status"]["phase"] in ("Pending", "Running")
            for pod in kubectl.items(PODS)
        )
        # No list has both: pods that leave are compared with the Jobs of that moment, so with those that stayed.
        if before == widths():
            held = sum(before.values())
            assert held + leaving <= cards, f"{held} pods are to run while {leaving} leave"
        return found()

    return eventually(and_no_card_is_given_twice, SECONDS, every=0.05)


def refused(kubectl: Kubectl) -> bool:
    """True if the policy refuses to the engine's account what it is to refuse."""
    change = '--patch={"spec": {"parallelism": 1, "completions": 1}}'
    try:
        Kubectl(kubectl.namespace, ACCOUNT)(
            "patch", "job", "wide", "--type=merge", change, "--dry-run=server"
        )
    except KubectlError as error:
        return HELD in str(error)
    return False


def record(kubectl: Kubectl) -> Resize | None:
    text = kubectl.get(JOBS, "wide")["metadata"]["annotations"].get(RESIZE)
    return Resize.decode(text) if text else None


def generation(kubectl: Kubectl) -> int:
    """The number of the last record."""
    found = record(kubectl)
    return found.gen if found is not None else 0


def recorded(kubectl: Kubectl, before: int, _: int) -> bool:
    """True once there is another record, of which nothing was carried out."""
    found = record(kubectl)
    return found is not None and found.gen > before and not found.applied


def asked(kubectl: Kubectl, before: int, after: int) -> bool:
    """True once index 0 was asked for a checkpoint, for another record."""
    first = pods(kubectl, "wide")[0]["metadata"]["annotations"].get(CHECKPOINT, "")
    return recorded(kubectl, before, after) and f'"gen":{generation(kubectl)}' in first


def narrowed(kubectl: Kubectl, _: int, after: int) -> bool:
    """True once the width is another one."""
    return width(kubectl) == after


def width(kubectl: Kubectl) -> int:
    return int(kubectl.get(JOBS, "wide")["spec"]["parallelism"])


def suspended(kubectl: Kubectl, name: str) -> bool:
    return bool(kubectl.get(JOBS, name)["spec"]["suspend"])
