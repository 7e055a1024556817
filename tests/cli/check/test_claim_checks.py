"""`vgpu check` where the cluster service serves ResourceClaims."""

from dataclasses import replace
from typing import Any

import pytest

from device_plugin.cli.check import checks
from device_plugin.cli.check.installation import CheckState, Finding
from device_plugin.core.contract.resource_slices import resource_slice
from tests.builders.cards import FAMILY, card, inventory
from tests.cli.check.test_checks import CHANGING, SOUND, bound, cluster_service, named, node

ALL = (*checks.POLICIES, *checks.CLAIM_POLICIES)
MUTATING = [*CHANGING, *(named(name, spec={"policyName": name}) for name in checks.CLAIM_MUTATING)]
SHOWN = [resource_slice(name, FAMILY, [card(f"{name}-0")], 1) for name in ("n1", "n2")]
REGISTERED = [node(name, replace(inventory(name), claims=True)) for name in ("n1", "n2")]
SERVED = replace(
    SOUND,
    workloads=cluster_service(VGPU_CLAIMS="true", FAMILIES="hygon.com/dcu,hygon.com/hcu"),
    nodes=REGISTERED,
    policies=bound(ALL),
    bindings=bound(ALL),
    mutating=MUTATING,
    mutating_bindings=MUTATING,
    classes=[named("dcu.vgpu.io"), named("hcu.vgpu.io"), named("gpu.example.com")],
    resource_slices=SHOWN,
)


def found(**change: Any) -> list[Finding]:
    return [each for each in checks.findings(replace(SERVED, **change)) if each.check == "claims"]


def without_sharing() -> list[dict[str, Any]]:
    """The ResourceSlices as an API server without consumable capacity keeps them, beside another driver's."""
    (device,) = SHOWN[1]["spec"]["devices"]
    kept = {key: value for key, value in device.items() if key != "allowMultipleAllocations"}
    foreign = {
        **named("f"),
        "spec": {"driver": "gpu.example.com", "nodeName": "n3", "devices": [{"name": "g"}]},
    }
    return [SHOWN[0], {**SHOWN[1], "spec": {**SHOWN[1]["spec"], "devices": [kept]}}, foreign]


def test_where_claims_are_served_the_check_says_so() -> None:
    (only,) = found()
    assert (only.state, only.text) == (CheckState.OK, "ResourceClaims are served on every node with cards")


@pytest.mark.parametrize("off", ["false", ""])
def test_where_they_are_off_nothing_is_said_of_them(off: str) -> None:
    assert found(workloads=cluster_service(VGPU_CLAIMS=off)) == []


@pytest.mark.parametrize(
    ("change", "text", "cure"),
    [
        (
            {"server": "v1.35.2"},
            "the API server is v1.35.2, and ResourceClaims need Kubernetes 1.36: consumable capacity is off there",
            "leave the component dra out",
        ),
        (
            {"nodes": [REGISTERED[0], replace(REGISTERED[1], kubelet="v1.34.1")]},
            "ResourceClaims need kubelets of Kubernetes 1.36: n2 (v1.34.1)", "upgrade Kubernetes",
        ),
        (
            {"classes": [named("dcu.vgpu.io")]},
            "there is no DeviceClass hcu.vgpu.io, so no claim can name it", "install it",
        ),
        (
            {"resource_slices": without_sharing()},
            "the ResourceSlices of n2 do not say that claims share cards", "DRAConsumableCapacity",
        ),
        (
            {"nodes": [REGISTERED[0], node("n2")]},
            "the agents of n2 are not registered with their kubelets as drivers", "logs -l",
        ),
    ],
)  # fmt: skip
def test_each_reason_why_claims_are_not_served_is_named(change: dict[str, Any], text: str, cure: str) -> None:
    (only,) = found(**change)
    assert only.state is CheckState.PROBLEM
    assert only.text.startswith(text)
    assert cure in only.cure


def test_an_agent_that_serves_nothing_is_left_to_its_own_check() -> None:
    resting = node("n2", replace(inventory("n2"), serving=False))
    assert [each.state for each in found(nodes=[REGISTERED[0], resting])] == [CheckState.OK]


def test_what_cannot_be_read_is_unknown() -> None:
    gone = {"classes": "the API server has no deviceclasses of resource.k8s.io/v1"}
    assert [(each.state, each.text) for each in found(classes=None, missing=gone)] == [
        (CheckState.UNKNOWN, gone["classes"])
    ]


def test_the_policies_of_the_component_are_wanted() -> None:
    missing = [
        each.text
        for each in checks.findings(
            replace(SERVED, policies=SOUND.policies, bindings=SOUND.bindings, mutating=CHANGING)
        )
        if each.state is CheckState.PROBLEM
    ]
    names = (*checks.CLAIM_POLICIES, *checks.CLAIM_MUTATING)
    assert missing == [f"policy {name} is missing" for name in names]
