from typing import Any

import pytest

from tests.builders.convert import converted, limits, pod


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
    "fraction", ["1e999999999", "-1e999999999", "1e-999999999", "nan", "sNaN", "inf", "9" * 5000]
)
def test_a_fraction_that_would_take_all_memory_is_no_fraction(fraction: str) -> None:
    assert "write a fraction" in converted(pod({}, {"gpu-fraction": fraction})).problems[0]


def test_a_fraction_is_for_the_container_that_is_named_and_beside_no_other_request() -> None:
    document = pod({}, {"gpu-fraction": "0.5", "gpu-fraction-container-name": "b"})
    document["spec"]["containers"].append({"name": "b"})
    assert not converted(document).problems
    assert document["spec"]["containers"][1]["resources"]["limits"] == {"hygon.com/dcu-percent": 50}
    (problem,) = converted(pod({"nvidia.com/gpu": 1}, {"gpu-fraction": "0.5"})).problems
    assert "an annotation and a container ask for a card: keep one of them" in problem
    (problem,) = converted(pod({}, {"gpu-memory": "5", "gpu-fraction-container-name": "z"})).problems
    assert "no container z" in problem


@pytest.mark.parametrize(
    ("annotations", "why"),
    [
        (
            {"gpu-fraction": "0.5", "gpu-memory": "2000"},
            "annotations gpu-fraction and gpu-memory: keep one of them",
        ),
        ({"gpu-fraction-num-devices": "2"}, "gpu-fraction-num-devices: write gpu-fraction or gpu-memory too"),
    ],
)
def test_annotations_of_kai_that_do_not_go_together_are_a_problem(
    annotations: dict[str, str], why: str
) -> None:
    document = pod({}, annotations)
    (problem,) = converted(document).problems
    assert why in problem
    assert document["metadata"]["annotations"] == annotations


def test_an_annotation_of_ours_is_not_overwritten() -> None:
    both = {"vgpu.io/card-model": "mine", "hygon.com/use-dcutype": "Z100"}
    (problem,) = converted(pod({"hygon.com/dcunum": 1}, both)).problems
    assert problem.startswith(
        "annotation vgpu.io/card-model is mine, and from hygon.com/use-dcutype it would be Z100"
    )
    same = {"vgpu.io/card-model": "Z100", "hygon.com/use-dcutype": "Z100"}
    assert converted(pod({"hygon.com/dcunum": 1}, same)).problems == []


def test_a_list_of_models_without_a_value_is_empty() -> None:
    document: dict[str, Any] = pod({"hygon.com/hcunum": 1})
    document["metadata"]["annotations"] = {"hygon.com/nouse-hcutype": "K100", "hygon.com/use-hcutype": None}
    converted(document)
    assert document["metadata"]["annotations"] == {"vgpu.io/card-model": "!K100"}


def test_a_choice_of_single_cards_stays_with_the_way_to_write_it_here() -> None:
    (remark,) = converted(pod({"hygon.com/dcunum": 1}, {"hygon.com/use-gpuuuid": "DCU-1"})).remarks
    assert remark == (
        "annotation hygon.com/use-gpuuuid stays, without effect: write vgpu.io/card-uuid with names that `kubectl vgpu"
        " cards` shows"
    )
