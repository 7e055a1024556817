from typing import Any

import pytest

from device_plugin.cli.convert.products import Ask, Requests
from device_plugin.core.errors import RequestError


def read(amounts: dict[str, Any], prefix: str = "hygon.com/dcu") -> Requests:
    requests = Requests(amounts, prefix)
    requests.read()
    return requests


@pytest.mark.parametrize(
    ("amounts", "why"),
    [
        ({"hygon.com/hcunum": 0, "hygon.com/hcumem": 4}, "hygon.com/hcunum: 0 beside other amounts"),
        ({"hygon.com/hcu-share-0c-4g": 1}, "hygon.com/hcu-share-0c-4g: not a profile"),
        ({"hygon.com/hcu-share-4c-0g": 1}, "hygon.com/hcu-share-4c-0g: not a profile"),
        ({"hygon.com/hcu-mig-5g.20gb": 1}, "hygon.com/hcu-mig-5g.20gb: a card has 4 parts"),
        ({"nvidia.com/gpucores": 101}, "nvidia.com/gpucores: 101 percent are more than a card"),
        ({"nvidia.com/gpumem-percentage": 200}, "nvidia.com/gpumem-percentage: 200 percent are more"),
        ({"hygon.com/hcumem": "16Gi"}, "hygon.com/hcumem: 16Gi counts units of 1 MiB here"),
        ({"aliyun.com/gpu-mem": "16Gi"}, "aliyun.com/gpu-mem: 16Gi counts units of 1024 MiB here"),
        ({"hygon.com/hcunum": 1, "hygon.com/dcu-mem": 4}, "hygon.com/hcunum and for hygon.com/dcu-mem: keep one"),
        ({"hygon.com/hcumem": 9, "hygon.com/dcu-mem": 4}, "hygon.com/hcumem and for hygon.com/dcu-mem: keep one"),
        ({"hygon.com/hcumem": "010000"}, "hygon.com/hcumem: 010000: write the number without a leading zero"),
    ],
)  # fmt: skip
def test_an_amount_that_no_card_has_is_an_error(amounts: dict[str, Any], why: str) -> None:
    with pytest.raises(RequestError, match=why):
        read(amounts)


@pytest.mark.parametrize("amounts", [{"nvidia.com/gpu": 0}, {"hygon.com/hcu-share-4c-4g": 0}])
def test_a_request_for_no_card_is_removed(amounts: dict[str, Any]) -> None:
    requests = read(amounts)
    assert (requests.asks, requests.names) == ([], list(amounts))
    assert requests.remarks == [f"{requests.names[0]}: 0 asks for no card; it is removed"]


def test_an_amount_of_0_does_not_limit() -> None:
    assert read({"nvidia.com/gpu": 1, "nvidia.com/gpumem": 0, "nvidia.com/gpucores": 0}).asks == [Ask(1)]


def test_an_unknown_resource_of_a_card_is_said_and_one_of_ours_is_not() -> None:
    assert read({"hygon.com/hcu-foo": 1, "cpu": 1}).remarks == [
        "hygon.com/hcu-foo is not known here; it stays"
    ]
    assert read({"hygon.com/dcu-cores": 4}).remarks == []


def test_a_resource_of_our_other_cards_is_said() -> None:
    remark = "hygon.com/hcu-mem is for other cards of vgpu than hygon.com/dcu; it stays"
    assert read({"hygon.com/hcu-mem": 4}).remarks == [remark]
    remark = "hygon.com/dcu is for other cards of vgpu than hygon.com/hcu; it stays"
    assert read({"hygon.com/dcu": 1}, "hygon.com/hcu").remarks == [remark]


def test_the_whole_cards_of_a_maker_have_the_name_of_ours() -> None:
    assert read({"hygon.com/hcu": 1}, "hygon.com/hcu").whole_cards_of_a_maker()
    assert not read({"hygon.com/hcu": 1, "hygon.com/hcu-mem": 4}, "hygon.com/hcu").whole_cards_of_a_maker()
    assert not read({"hygon.com/dcu": 1}).whole_cards_of_a_maker()


def test_hamis_share_of_a_card_is_read_under_its_own_prefix() -> None:
    requests = read({"nvidia.com/gpu": 2, "nvidia.com/gpumem": 3000}, "nvidia.com/gpu")
    assert requests.asks == [Ask(2, 3000)]
    assert requests.ours == []
