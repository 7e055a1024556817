import re
from pathlib import Path

import pytest
import yaml

from device_plugin.wiring.commands import main

CLAIM = """apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: quarter}
spec:
  devices:
    requests:
    - name: hcu
      exactly:
        deviceClassName: dra.hygon.com
        count: 1
        capacity: {requests: {cores: "60", memory: "20Gi"}}
"""
CLAIMING = """apiVersion: v1
kind: Pod
metadata: {name: consumer}
spec:
  resourceClaims:
  - {name: ref, resourceClaimName: quarter}
  containers:
  - name: app
    image: ubuntu:22.04
    resources: {claims: [{name: ref}]}
"""


def test_a_claim_of_hygons_dra_driver_becomes_a_request(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "claim.yaml").write_text(CLAIM)
    (tmp_path / "pod.yaml").write_text(CLAIMING)
    assert main(["convert", str(tmp_path / "claim.yaml"), str(tmp_path / "pod.yaml")]) == 0
    output = capsys.readouterr()
    _, made = yaml.safe_load_all(output.out)
    assert made["spec"]["containers"][0]["resources"] == {
        "limits": {"hygon.com/dcu-mem": 20, "hygon.com/dcu-cores": 60}
    }
    assert "resourceClaims" not in made["spec"]
    assert "its claims ref are requests now: delete the ResourceClaims" in output.err


def test_a_claim_of_units_without_memory_gets_the_whole_card_and_a_remark(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "all.yaml").write_text(CLAIM.replace(', memory: "20Gi"', "") + "---\n" + CLAIMING)
    assert main(["convert", str(tmp_path / "all.yaml")]) == 0
    output = capsys.readouterr()
    _, made = yaml.safe_load_all(output.out)
    assert made["spec"]["containers"][0]["resources"] == {"limits": {"hygon.com/dcu-percent": 100}}
    assert "container app: asked for 60 compute units and no memory, gets 100 % of the card" in output.err


def test_a_claim_beside_another_products_request_stays(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    both = "{claims: [{name: ref}], limits: {nvidia.com/gpu: 1}}"
    beside = CLAIMING.replace("{claims: [{name: ref}]}", both)
    beside += "  - {name: more, resources: {limits: {nvidia.com/gpu: 1}}}\n"
    (tmp_path / "all.yaml").write_text(f"{CLAIM}---\n{beside}")
    assert main(["convert", str(tmp_path / "all.yaml")]) != 0
    output = capsys.readouterr()
    assert "container app: asks for cards by nvidia.com/gpu and by claim ref: keep one" in output.err
    assert "delete the ResourceClaims" not in output.err
    _, made = yaml.safe_load_all(output.out)
    assert made["spec"]["containers"][0] == yaml.safe_load(beside)["spec"]["containers"][0]
    assert made["spec"]["resourceClaims"] == yaml.safe_load(beside)["spec"]["resourceClaims"]


def test_a_claim_that_two_containers_use_is_a_problem_and_one_that_pods_share_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    both = CLAIMING + "  - {name: other, resources: {claims: [{name: ref}]}}\n"
    (tmp_path / "all.yaml").write_text(f"{CLAIM}---\n{both}")
    assert main(["convert", str(tmp_path / "all.yaml")]) != 0
    said = capsys.readouterr().err
    assert "container other: uses claim ref, as container app does" in said
    assert "give each container a claim of its own" in said
    (tmp_path / "all.yaml").write_text(f"{CLAIM}---\n{CLAIMING}")
    assert main(["convert", str(tmp_path / "all.yaml")]) == 0
    said = capsys.readouterr().err
    assert (
        "all pods that name ResourceClaim quarter share its cards: here each pod has a slice of its own"
        in said
    )


def test_a_claim_of_v1beta1_is_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    older = CLAIM.replace("      exactly:\n", "").replace("        ", "      ")
    (tmp_path / "all.yaml").write_text(f"{older}---\n{CLAIMING}")
    assert main(["convert", str(tmp_path / "all.yaml")]) == 0
    _, made = yaml.safe_load_all(capsys.readouterr().out)
    assert made["spec"]["containers"][0]["resources"]["limits"] == {
        "hygon.com/dcu-mem": 20,
        "hygon.com/dcu-cores": 60,
    }


def test_a_claim_that_is_in_no_file_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "pod.yaml").write_text(CLAIMING)
    assert main(["convert", str(tmp_path / "pod.yaml")]) == 0
    output = capsys.readouterr()
    assert yaml.safe_load(output.out) == yaml.safe_load(CLAIMING)
    assert "its ResourceClaim quarter is in none of the files" in output.err


def test_a_claim_without_a_capacity_is_a_whole_card_and_those_of_other_drivers_stay(tmp_path: Path) -> None:
    whole = re.sub("        capacity.*\n", "", CLAIM)
    template = whole.replace("kind: ResourceClaim\n", "kind: ResourceClaimTemplate\n").replace(
        "spec:\n  devices:", "spec:\n spec:\n  devices:"
    )
    pod_of_it = CLAIMING.replace("resourceClaimName", "resourceClaimTemplateName")
    other = template.replace("dra.hygon.com", "gpu.example.com").replace("quarter", "other")
    for text in (f"{template}---\n{pod_of_it}", f"{other}---\n{pod_of_it.replace('quarter', 'other')}"):
        (tmp_path / "all.yaml").write_text(text)
        assert main(["convert", "-i", str(tmp_path / "all.yaml")]) == 0
        resources = list(yaml.safe_load_all((tmp_path / "all.yaml").read_text()))[1]["spec"]["containers"][0][
            "resources"
        ]
        assert resources == (
            {"limits": {"hygon.com/dcu": 1}} if "dra.hygon" in text else {"claims": [{"name": "ref"}]}
        )


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (('"60"', '"half"'), "capacity cores is half: write a whole number of at least 1"),
        (("count: 1", "count: 0"), "count is 0: write a whole number of at least 1"),
        (
            ("count: 1", "allocationMode: All"),
            "ResourceClaim quarter: allocationMode: All has no counterpart: write a count",
        ),
        (("count: 1", "adminAccess: true"), "adminAccess has no counterpart: leave it out"),
        (("cores:", "computeUnits:"), "capacity computeUnits is not known here"),
        (("count: 1", "gadget: 1"), "gadget is not known here"),
        (("count: 1", "selectors: [{cel: {expression: 'true'}}]"), "selectors have no counterpart"),
        (
            (
                "      exactly:\n        deviceClassName",
                "      firstAvailable:\n      - name: one\n        deviceClassName",
            ),
            "ResourceClaim quarter: firstAvailable has no counterpart",
        ),
        (("devices:", "devices: x\n  other:"), "a part of a claim is not as Kubernetes has it"),
    ],
)
def test_a_wrong_claim_is_an_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], change: tuple[str, str], why: str
) -> None:
    made = CLAIM.replace(*change)
    assert made != CLAIM
    (tmp_path / "claim.yaml").write_text(made)
    assert main(["convert", str(tmp_path / "claim.yaml")]) != 0
    assert why in capsys.readouterr().err


def test_claims_are_looked_up_in_the_namespace_of_the_pod(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    here = CLAIM.replace("name: quarter", "name: quarter, namespace: a")
    there = CLAIM.replace("name: quarter", "name: quarter, namespace: b").replace('"60"', '"30"')
    ours = CLAIMING.replace("name: consumer", "name: consumer, namespace: b")
    (tmp_path / "all.yaml").write_text("---\n".join((here, there, ours)))
    assert main(["convert", str(tmp_path / "all.yaml")]) == 0
    made = list(yaml.safe_load_all(capsys.readouterr().out))[2]
    assert made["spec"]["containers"][0]["resources"]["limits"]["hygon.com/dcu-cores"] == 30
    (tmp_path / "all.yaml").write_text(f"{here}---\n{ours}")
    assert main(["convert", str(tmp_path / "all.yaml")]) == 0
    assert (
        "its ResourceClaim quarter is in none of the files, in the same namespace" in capsys.readouterr().err
    )


def test_two_claims_of_one_name_are_an_error_only_if_they_differ(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "all.yaml"
    file.write_text(f"{CLAIM}---\n{CLAIM}---\n{CLAIMING}")
    assert main(["convert", str(file)]) == 0
    file.write_text(f"{CLAIM}---\n{CLAIM.replace('60', '30')}---\n{CLAIMING}")
    assert main(["convert", str(file)]) == 2
    assert "ResourceClaim quarter is there twice, with two requests" in capsys.readouterr().err


@pytest.mark.parametrize("kind", ["List", "ResourceClaimList"])
def test_claims_in_a_list_are_read_and_what_is_lost_of_them_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], kind: str
) -> None:
    claim = yaml.safe_load(CLAIM)
    claim["spec"]["devices"] |= {"config": [{"opaque": {}}], "constraints": [{"matchAttribute": "x/y"}]}
    if kind != "List":
        del claim["kind"]
    (tmp_path / "all.yaml").write_text(f"{yaml.safe_dump({'kind': kind, 'items': [claim]})}---\n{CLAIMING}")
    assert main(["convert", str(tmp_path / "all.yaml")]) == 0
    output = capsys.readouterr()
    assert "hygon.com/dcu-cores: 60" in output.out
    for part in ("config", "constraints"):
        assert f"its ResourceClaim quarter has {part}, which has no effect here" in output.err


@pytest.mark.parametrize(("claim", "pod"), [("", "default"), ("default", "")])
def test_an_object_without_a_namespace_may_be_in_the_default_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], claim: str, pod: str
) -> None:
    (tmp_path / "all.yaml").write_text(
        CLAIM.replace("name: quarter", f"name: quarter, namespace: '{claim}'")
        + "---\n"
        + CLAIMING.replace("name: consumer", f"name: consumer, namespace: '{pod}'")
    )
    assert main(["convert", str(tmp_path / "all.yaml")]) == 0
    assert "hygon.com/dcu-cores: 60" in capsys.readouterr().out


def test_a_pod_whose_claim_is_unknown_is_not_said_to_ask_for_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "pod.yaml").write_text(CLAIMING)
    assert main(["convert", str(tmp_path / "pod.yaml")]) == 0
    (said,) = capsys.readouterr().err.splitlines()
    assert "its ResourceClaim quarter is in none of the files" in said


def test_a_claim_that_no_container_uses_stays(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    unused = CLAIMING.replace("{claims: [{name: ref}]}", "{limits: {nvidia.com/gpu: 1}}")
    (tmp_path / "all.yaml").write_text(f"{CLAIM}---\n{unused}")
    assert main(["convert", str(tmp_path / "all.yaml")]) == 0
    output = capsys.readouterr()
    assert "resourceClaimName: quarter" in output.out
    assert "its claim ref is used by no container; it stays" in output.err
