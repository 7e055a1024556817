import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from device_plugin.cli.convert.pods import Conversion, Target, templates
from device_plugin.wiring.commands import main

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
    assert [template["spec"] for template in templates(document)] == [spec, spec]


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
