import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from device_plugin.cli.convert.pods import Conversion, Target, templates
from device_plugin.core.contract.grants import Grant
from device_plugin.core.ledger import Ledger
from device_plugin.core.placement import Placer
from device_plugin.core.pods import Container, ContainerKind, Pod
from device_plugin.core.requests import pod_request
from device_plugin.wiring.commands import main
from tests.builders.cards import inventory

POD = """\
# A comment that stays.
apiVersion: v1
kind: Pod
metadata: {name: demo}
spec:
  containers:
  - name: main # this one too
    image: "i:1"
    resources:
      limits:
%s
"""


def pod(limits: dict[str, Any], annotations: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    container = {"name": "main", "resources": {"limits": dict(limits)}}
    return {
        "kind": "Pod",
        "metadata": {"annotations": annotations or {}},
        "spec": {"containers": [container], **spec},
    }


HYGON = Target("hygon.com/dcu")


def converted(document: dict[str, Any], target: Target = HYGON) -> Conversion:
    conversion = Conversion(target)
    conversion.run(document)
    return conversion


def limits(document: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = document["spec"]["containers"][0]["resources"]["limits"]
    return found


@pytest.mark.parametrize(
    ("asked", "given", "slices"),
    [
        ({"nvidia.com/gpu": 2}, {"hygon.com/dcu": 2}, None),
        ({"nvidia.com/gpu": "1", "nvidia.com/gpumem": "3000"}, {"hygon.com/dcu-mem": 3}, None),
        ({"nvidia.com/gpu": 2, "nvidia.com/gpumem": 4096}, {"hygon.com/dcu-mem": 8}, "2"),
        ({"nvidia.com/gpu": 1, "nvidia.com/gpumem-percentage": 50}, {"hygon.com/dcu-percent": 50}, None),
        (
            {"nvidia.com/gpu": 2, "nvidia.com/gpumem-percentage": 25, "nvidia.com/gpucores": 30},
            {"hygon.com/dcu-percent": 60}, "2",
        ),
        ({"nvidia.com/gpumem": "4k"}, {"hygon.com/dcu-mem": 4}, None),
        ({"hygon.com/dcunum": 1, "hygon.com/dcumem": 2048, "hygon.com/dcucores": 60}, {"hygon.com/dcu-mem": 2}, None),
        ({"hygon.com/dcunum": 1, "hygon.com/dcucores": 60}, {"hygon.com/dcu-percent": 60}, None),
        ({"volcano.sh/vgpu-number": 1, "volcano.sh/vgpu-memory": 1024}, {"hygon.com/dcu-mem": 1}, None),
        ({"aliyun.com/gpu-mem": 3}, {"hygon.com/dcu-mem": 3}, None),
        ({"nvidia.com/mig-1g.5gb": 1}, {"hygon.com/dcu-mem": 5}, None),
        ({"cpu": 4, "nvidia.com/gpu": 1}, {"cpu": 4, "hygon.com/dcu": 1}, None),
    ],
)  # fmt: skip
def test_resources(asked: dict[str, Any], given: dict[str, Any], slices: str | None) -> None:
    document = pod(asked)
    assert not converted(document).problems
    assert limits(document) == given
    assert document["metadata"]["annotations"].get("vgpu.io/slices") == slices


# The amounts of the examples in the documentation of Hygon's plugin and of HAMi.
@pytest.mark.parametrize(
    ("asked", "given", "slices"),
    [
        ({"hygon.com/hcu": 1}, {"hygon.com/dcu": 1}, None),
        ({"hygon.com/hcunum": 2}, {"hygon.com/dcu": 2}, None),
        (
            {"hygon.com/hcunum": 1, "hygon.com/hcucores": 30, "hygon.com/hcumem": 8192},
            {"hygon.com/dcu-mem": 8, "hygon.com/dcu-cores": 24}, None,
        ),
        ({"hygon.com/hcunum": 1, "hygon.com/hcucores": 50}, {"hygon.com/dcu-percent": 50}, None),
        ({"hygon.com/hcu-share-4c-16g": 1}, {"hygon.com/dcu-mem": 16, "hygon.com/dcu-cores": 4}, None),
        ({"hygon.com/hcu-share-8c-16g": 2}, {"hygon.com/dcu-mem": 32, "hygon.com/dcu-cores": 16}, "2"),
        ({"hygon.com/hcu-mig-2g-15gb": 1}, {"hygon.com/dcu-mem": 15, "hygon.com/dcu-cores": 40}, None),
        ({"hygon.com/hcu-mig-4g-31gb": 1}, {"hygon.com/dcu-mem": 31, "hygon.com/dcu-cores": 80}, None),
    ],
)  # fmt: skip
def test_resources_of_hygons_own_plugin(
    asked: dict[str, Any], given: dict[str, Any], slices: str | None
) -> None:
    document = pod(asked)
    assert not converted(document, Target("hygon.com/dcu", core_groups=80)).problems
    assert limits(document) == given
    assert document["metadata"]["annotations"].get("vgpu.io/slices") == slices


# Cards of 80 core groups and 64 GiB less 16 MiB: per slice its memory in MiB and its core groups.
@pytest.mark.parametrize(
    ("asked", "slices"),
    [
        ({"hygon.com/hcu": 1}, [(65520, 80)]),
        ({"hygon.com/hcunum": 2}, [(65520, 80), (65520, 80)]),
        ({"hygon.com/hcunum": 1, "hygon.com/hcucores": 30, "hygon.com/hcumem": 8192}, [(8190, 24)]),
        ({"hygon.com/hcunum": 1, "hygon.com/hcumem": 8192}, [(65520, 80)]),
        ({"hygon.com/hcu-share-8c-16g": 2}, [(16380, 8), (16380, 8)]),
        ({"hygon.com/hcu-mig-2g-15gb": 1}, [(15356, 40)]),
    ],
)
def test_a_converted_pod_is_placed_and_limited_as_hygons_plugin_meant_it(
    asked: dict[str, Any], slices: list[tuple[int, int]]
) -> None:
    document = pod(asked)
    assert not converted(document, Target("hygon.com/dcu", core_groups=80)).problems
    written = {name: str(amount) for name, amount in limits(document).items()}
    made = Pod(
        "default", "p", "uid-p", annotations=document["metadata"]["annotations"],
        containers=(Container("main", ContainerKind.MAIN, written),),
    )  # fmt: skip
    request = pod_request(made, ("hygon.com/dcu",))
    assert request is not None
    ledger = Ledger()
    ledger.set_node("n1", inventory("n1", 2, mem_mib=65520, groups=80))
    grant = Placer(ledger).place(request)
    assert isinstance(grant, Grant)
    assert [(each.mem_mib, len(each.cores)) for each in grant.slices()] == slices


@pytest.mark.parametrize(
    ("asked", "cards", "had"),
    [
        ({"hygon.com/hcunum": 2, "hygon.com/hcumem": 2048, "hygon.com/hcucores": 50}, 2, "2 cards"),
        ({"hygon.com/hcunum": 1, "hygon.com/hcumem": 2048}, 1, "all compute units"),
        (
            {"hygon.com/hcunum": 1, "hygon.com/hcumem": 2048, "hygon.com/hcucores": 100},
            1,
            "all compute units",
        ),
    ],
)
def test_requests_for_which_hygons_plugin_cuts_no_card(asked: dict[str, Any], cards: int, had: str) -> None:
    document = pod(asked)
    (remark,) = converted(document).remarks
    assert had in remark
    assert "hygon.com/dcu-mem" in remark
    assert limits(document) == {"hygon.com/dcu": cards}


def test_a_resource_that_is_ours_by_the_prefix_stays() -> None:
    document = pod({"hygon.com/hcu": 1, "hygon.com/hcu-mem": 4})
    assert not converted(document, Target("hygon.com/hcu")).converted
    assert limits(document) == {"hygon.com/hcu": 1, "hygon.com/hcu-mem": 4}


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
    assert "container app: asks several products for cards" in output.err
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
        (('"60"', '"half"'), "capacity cores: half is no whole number of at least 1"),
        (("count: 1", "count: 0"), "capacity count: 0 is no whole number of at least 1"),
        (
            ("count: 1", "allocationMode: All"),
            "ResourceClaim quarter: allocationMode: All has no counterpart: write a count",
        ),
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


def test_percent_of_compute_becomes_core_groups_of_a_known_card() -> None:
    document = pod({"hygon.com/dcunum": 2, "hygon.com/dcumem": 2048, "hygon.com/dcucores": 33})
    converted(document, Target("hygon.com/dcu", core_groups=60))
    assert limits(document) == {"hygon.com/dcu-mem": 4, "hygon.com/dcu-cores": 40}


def test_of_an_unknown_card_the_remark_says_what_to_write() -> None:
    conversion = converted(pod({"hygon.com/dcunum": 1, "hygon.com/dcumem": 2048, "hygon.com/dcucores": 33}))
    assert any("33 %" in remark and "--core-groups" in remark for remark in conversion.remarks)


@pytest.mark.parametrize(
    ("annotations", "given", "slices"),
    [
        ({"gpu-fraction": "0.25"}, {"hygon.com/dcu-percent": 25}, None),
        ({"gpu-fraction": "0.5", "gpu-fraction-num-devices": "2"}, {"hygon.com/dcu-percent": 100}, "2"),
        ({"gpu-memory": "2000"}, {"hygon.com/dcu-mem": 2}, None),
    ],
)
def test_fractions_of_kai(annotations: dict[str, str], given: dict[str, Any], slices: str | None) -> None:
    document = pod({}, annotations, schedulerName="kai-scheduler")
    converted(document)
    assert limits(document) == given
    assert document["metadata"]["annotations"] == ({"vgpu.io/slices": slices} if slices else {})
    assert document["spec"]["schedulerName"] == "vgpu-scheduler"


@pytest.mark.parametrize(
    ("annotations", "given"),
    [
        ({"hygon.com/use-dcutype": "Z100, K100"}, {"vgpu.io/card-model": "Z100,K100"}),
        ({"hygon.com/nouse-dcutype": "Z100"}, {"vgpu.io/card-model": "!Z100"}),
        ({"hygon.com/use-hcutype": "K100_AI"}, {"vgpu.io/card-model": "K100_AI"}),
        ({"hygon.com/nouse-hcutype": "BW150"}, {"vgpu.io/card-model": "!BW150"}),
        ({"hami.io/node-scheduler-policy": "binpack"}, {"vgpu.io/policy": "pack"}),
        ({"hami.io/gpu-scheduler-policy": "spread"}, {"vgpu.io/policy": "spread"}),
    ],
)
def test_annotations_with_a_counterpart(annotations: dict[str, str], given: dict[str, str]) -> None:
    document = pod({"hygon.com/dcunum": 1}, annotations)
    assert converted(document).remarks == []
    assert document["metadata"]["annotations"] == given


def test_what_has_no_counterpart_is_said_and_stays() -> None:
    document = pod(
        {"nvidia.com/gpu": 1}, {"nvidia.com/use-gpuuuid": "GPU-1", "mine": "x"}, nodeSelector={"gpu": "on"}
    )
    remarks = "\n".join(converted(document).remarks)
    assert "annotation nvidia.com/use-gpuuuid has no counterpart" in remarks
    assert "nodeSelector gpu stays" in remarks
    assert document["metadata"]["annotations"] == {"nvidia.com/use-gpuuuid": "GPU-1", "mine": "x"}


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        ({"nvidia.com/gpu.shared": 1}, "a time slice has no size"),
        ({"nvidia.com/gpu": 1, "aliyun.com/gpu-mem": 1}, "several products"),
        ({"nvidia.com/gpumem": "half"}, "half is no whole number"),
        ({"nvidia.com/mig-all": 1}, "not a profile"),
        ({"nvidia.com/gpu": 17, "nvidia.com/gpumem": 1024}, "at most 16"),
    ],
)
def test_what_cannot_be_converted_is_said(asked: dict[str, Any], why: str) -> None:
    (problem,) = converted(pod(asked)).problems
    assert why in problem


def test_slices_of_several_cards_are_for_pods_in_which_one_container_asks() -> None:
    document = pod({"nvidia.com/gpu": 2, "nvidia.com/gpumem": 1024})
    document["spec"]["containers"].append({"name": "more", "resources": {"limits": {"nvidia.com/gpu": 1}}})
    (problem,) = converted(document).problems
    assert "make them two pods" in problem


def test_an_init_container_that_asks_is_said() -> None:
    document = pod({})
    document["spec"]["initContainers"] = [{"name": "warm", "resources": {"limits": {"nvidia.com/gpu": 1}}}]
    (problem,) = converted(document).problems
    assert "init container warm: cannot hold a slice" in problem
    document["spec"]["initContainers"] = [
        {"name": "side", "restartPolicy": "Always", "resources": {"limits": {"nvidia.com/gpu": 1}}}
    ]
    assert not converted(document).problems


def test_a_pod_of_ours_or_without_cards_stays_as_it_is() -> None:
    document = pod({"hygon.com/dcu-mem": 4, "cpu": 1}, {"hami.io/x": "y"}, schedulerName="own")
    before = repr(document)
    conversion = converted(document)
    assert repr(document) == before
    assert conversion.converted == 0


def test_templates_are_found_in_lists_and_in_kinds_that_nobody_knows() -> None:
    spec = {"containers": [{"name": "main"}]}
    document = {"items": [{"spec": {"replicas": {"Worker": {"template": {"spec": spec}}}}}, {"spec": spec}]}
    assert [template["spec"] for _, template in templates(document)] == [spec, spec]


def test_the_file_keeps_its_comments_and_order(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "pod.yaml"
    file.write_text(POD % "        nvidia.com/gpu: 1\n        nvidia.com/gpumem: 3000")
    assert main(["convert", str(file)]) == 0
    printed = capsys.readouterr()
    assert printed.out == (POD % "        hygon.com/dcu-mem: 3")
    assert "rounded up to 3 units" in printed.err
    assert main(["convert", "--in-place", "--prefix", "amd.com/gpu", str(file)]) == 0
    assert yaml.safe_load(file.read_text())["spec"]["containers"][0]["resources"]["limits"] == {
        "amd.com/gpu-mem": 3
    }
    assert "# A comment that stays." in file.read_text()


def test_nothing_is_written_where_one_file_is_wrong(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    good, bad = tmp_path / "good.yaml", tmp_path / "bad.yaml"
    good.write_text(POD % "        nvidia.com/gpu: 1")
    bad.write_text("{")
    assert main(["convert", "--in-place", str(good), str(bad)]) == 2
    assert "nvidia.com/gpu" in good.read_text()
    assert re.match(rf"vgpu: {bad} is not YAML: ", capsys.readouterr().err)


def test_the_exit_status_is_1_where_a_request_was_left(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "pod.yaml"
    file.write_text(POD % "        nvidia.com/gpu.shared: 1")
    assert main(["convert", str(file)]) == 1
    assert "Pod demo: not converted: container main: nvidia.com/gpu.shared" in capsys.readouterr().err


@pytest.mark.parametrize(
    "fraction", ["1e999999999", "-1e999999999", "1e-999999999", "nan", "sNaN", "inf", "9" * 5000]
)
def test_a_fraction_that_would_take_all_memory_is_no_fraction(fraction: str) -> None:
    assert "write a fraction" in converted(pod({}, {"gpu-fraction": fraction})).problems[0]


def test_a_profile_of_many_digits_is_no_profile() -> None:
    assert "not a profile" in converted(pod({f"nvidia.com/mig-{'9' * 5000}g.5gb": 1})).problems[0]


def test_what_the_author_of_a_file_wrote_is_text_on_the_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "pod.yaml"
    file.write_text(
        'kind: Pod\nmetadata: {name: "a\\e]0;x\\a\\u202Eb"}\n'
        'spec: {containers: [{name: "\\e[2J", resources: {limits: {nvidia.com/gpu: "\\e[31m"}}}]}\n',
        encoding="utf-8",
    )
    assert main(["convert", str(file)]) == 1
    said = capsys.readouterr().err
    assert "not converted" in said
    assert all(line.isprintable() for line in said.splitlines())


@pytest.mark.parametrize(
    "text",
    [
        "{metadata: [1], spec: {containers: [{name: m}]}}",
        "{metadata: x, spec: {containers: [{resources: {limits: {nvidia.com/gpu: 1}}}]}}",
        "{spec: {containers: [{resources: x}]}}",
        "{spec: {containers: [{resources: {limits: [1]}}]}}",
        "{spec: {containers: [{resources: {limits: {3: 4}}}]}}",
        "{spec: {nodeSelector: 5, containers: [{resources: {limits: {nvidia.com/gpu: 1}}}]}}",
    ],
)
def test_a_pod_of_another_form_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str) -> None:
    file = tmp_path / "pod.yaml"
    file.write_text(text, encoding="utf-8")
    assert main(["convert", "--in-place", str(file)]) == 2
    assert "a part of its pod is not as Kubernetes has it" in capsys.readouterr().err
    assert file.read_text() == text


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


def test_a_request_for_a_card_beside_one_of_ours_is_a_problem() -> None:
    document = pod({"hygon.com/hcu-share-4c-8g": 2})
    document["spec"]["containers"].append({"name": "b", "resources": {"limits": {"hygon.com/dcu-mem": 2}}})
    (problem,) = converted(document).problems
    assert "make them two pods" in problem


def test_a_pod_of_a_maker_whose_resource_has_our_name_gets_our_scheduler() -> None:
    document = pod({"hygon.com/hcu": 1}, {"hygon.com/use-hcutype": "K100"}, schedulerName="hami-scheduler")
    assert converted(document, Target("hygon.com/hcu")).converted
    assert limits(document) == {"hygon.com/hcu": 1}
    assert document["spec"]["schedulerName"] == "vgpu-scheduler"
    assert document["metadata"]["annotations"] == {"vgpu.io/card-model": "K100"}


def test_fields_that_are_null_are_as_missing_ones() -> None:
    document = pod({}, schedulerName=None, nodeSelector=None, affinity=None)
    document["metadata"] = {"annotations": {"gpu-memory": "2000"}}
    document["spec"]["containers"][0]["resources"] = {"requests": None, "limits": None}
    assert not converted(document).problems
    assert limits(document) == {"hygon.com/dcu-mem": 2}
    two = pod({"hygon.com/hcu-share-4c-8g": 2})
    two["metadata"]["annotations"] = None
    converted(two)
    assert two["metadata"]["annotations"] == {"vgpu.io/slices": "2"}


def test_a_fraction_is_for_the_container_that_is_named_and_beside_no_other_request() -> None:
    document = pod({}, {"gpu-fraction": "0.5", "gpu-fraction-container-name": "b"})
    document["spec"]["containers"].append({"name": "b"})
    assert not converted(document).problems
    assert document["spec"]["containers"][1]["resources"]["limits"] == {"hygon.com/dcu-percent": 50}
    (problem,) = converted(pod({"nvidia.com/gpu": 1}, {"gpu-fraction": "0.5"})).problems
    assert "a container asks for a card too: keep one of them" in problem
    (problem,) = converted(pod({}, {"gpu-memory": "5", "gpu-fraction-container-name": "z"})).problems
    assert "no container z" in problem


def test_a_request_where_kubernetes_gives_no_card_is_a_problem() -> None:
    document = pod({}, resources={"limits": {"hygon.com/hcunum": 1}})
    document["spec"]["ephemeralContainers"] = [
        {"name": "e", "resources": {"limits": {"hygon.com/dcu-mem": 1}}}
    ]
    problems = converted(document).problems
    assert [problem.split(": ask")[0] for problem in problems] == [
        "the resources of the pod: no card is given there", "ephemeral container e: no card is given there",
    ]  # fmt: skip


def test_a_node_affinity_on_a_label_of_another_product_is_said() -> None:
    terms = [{"matchExpressions": [{"key": "hygon.com/hcu.mode", "operator": "Exists"}]}]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    conversion = converted(pod({"hygon.com/hcunum": 1}, affinity={"nodeAffinity": required}))
    assert "nodeAffinity hygon.com/hcu.mode stays: remove it if no node has that label" in conversion.remarks
