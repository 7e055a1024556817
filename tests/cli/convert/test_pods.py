from typing import Any

import pytest

from device_plugin.cli.convert.pods import Target
from device_plugin.core.contract.grants import Grant
from device_plugin.core.ledger import Ledger
from device_plugin.core.placement import Placer
from device_plugin.core.pods import Container, ContainerKind, Pod
from device_plugin.core.requests import pod_request
from tests.builders.cards import inventory
from tests.builders.convert import converted, limits, pod


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


def test_percent_of_compute_becomes_core_groups_of_a_known_card() -> None:
    document = pod({"hygon.com/dcunum": 2, "hygon.com/dcumem": 2048, "hygon.com/dcucores": 33})
    converted(document, Target("hygon.com/dcu", core_groups=60))
    assert limits(document) == {"hygon.com/dcu-mem": 4, "hygon.com/dcu-cores": 40}


def test_of_an_unknown_card_the_remark_says_what_to_write() -> None:
    conversion = converted(pod({"hygon.com/dcunum": 1, "hygon.com/dcumem": 2048, "hygon.com/dcucores": 33}))
    assert any("33 %" in remark and "--core-groups" in remark for remark in conversion.remarks)


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        ({"nvidia.com/gpu.shared": 1}, "a time slice has no size"),
        ({"nvidia.com/gpu": 1, "aliyun.com/gpu-mem": 1}, "by nvidia.com/gpu and by aliyun.com/gpu-mem"),
        ({"nvidia.com/gpumem": "half"}, "is half: write a whole number of at least 0"),
        ({"nvidia.com/mig-all": 1}, "not a profile"),
        ({"nvidia.com/gpu": 17, "nvidia.com/gpumem": 1024}, "asks for 17 cards, and a container can have 16"),
        ({"hygon.com/dcunum": 32}, "asks for 32 cards, and a container can have 16"),
        ({"hygon.com/hcu": 1, "hygon.com/hcumem": 8192}, "by hygon.com/hcumem and by hygon.com/hcu"),
        ({"nvidia.com/gpu": None}, "nvidia.com/gpu has no amount: write a whole number of at least 0"),
        ({"nvidia.com/gpu": -1}, "nvidia.com/gpu is -1: write a whole number of at least 0"),
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


def test_a_profile_of_many_digits_is_no_profile() -> None:
    assert "not a profile" in converted(pod({f"nvidia.com/mig-{'9' * 5000}g.5gb": 1})).problems[0]


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


@pytest.mark.parametrize("amount", [0, "0"])
def test_a_pod_whose_request_for_no_card_is_removed_gets_our_scheduler(amount: object) -> None:
    document = pod({"nvidia.com/gpu": amount}, schedulerName="hami-scheduler")
    conversion = converted(document)
    assert conversion.converted
    assert conversion.problems == []
    assert limits(document) == {}
    assert document["spec"]["schedulerName"] == "vgpu-scheduler"


def test_the_scheduler_and_runtime_class_of_a_pod_without_a_request_are_said() -> None:
    conversion = converted(pod({}, schedulerName="hami-scheduler", runtimeClassName="nvidia"))
    assert [remark.partition(",")[0] for remark in conversion.remarks] == [
        "schedulerName hami-scheduler stays", "runtimeClassName nvidia stays",
    ]  # fmt: skip
    assert converted(pod({}, schedulerName="own")).remarks == []


@pytest.mark.parametrize(
    "asked",
    [
        {"hygon.com/dcunum": 1, "hygon.com/dcucores": 30}, {"hygon.com/hcunum": 1, "hygon.com/hcucores": 30},
        {"aliyun.com/gpu-core.percentage": 30},
    ],
)  # fmt: skip
def test_a_share_of_compute_alone_is_one_of_memory_too_and_that_is_said(asked: dict[str, Any]) -> None:
    document = pod(asked)
    (remark,) = converted(document).remarks
    assert limits(document) == {"hygon.com/dcu-percent": 30}
    assert "had 30 % of the compute units and no limit of memory, gets 30 % of both" in remark


def test_a_rounded_amount_is_said_in_whole_words() -> None:
    remark = converted(pod({"nvidia.com/gpumem": 1})).remarks[0]
    assert remark == "container main: memory is rounded up to 1 unit of 1024 MiB, from 1 MiB"


def test_slices_of_another_number_that_the_pod_has_already_are_a_problem() -> None:
    document = pod({"nvidia.com/gpu": 2, "nvidia.com/gpumem": 1024}, {"vgpu.io/slices": "3"})
    (problem,) = converted(document).problems
    assert problem == "annotation vgpu.io/slices is 3, and from the requests it would be 2: keep one of them"
