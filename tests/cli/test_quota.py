"""The quotas on cards: those on limits, and those on the slices of ResourceClaims."""

from typing import Any

import pytest

from device_plugin.adapters.kube.client import KubeClient
from device_plugin.cli.quota import QUOTAS, read_quota
from device_plugin.kube.api import EVERYWHERE, Kind, Listed, Where
from device_plugin.wiring.commands import main
from tests.cli.fleet import Fleet

SLICES = "dcu.vgpu.io.deviceclass.resource.k8s.io/devices"


def test_a_quota_on_the_slices_of_claims_is_shown_beside_those_on_limits(
    fleet: Fleet, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The embedded API server has no such quota."""
    theirs = "gpu.example.com.deviceclass.resource.k8s.io/devices"
    hard = {SLICES: "8", theirs: "1", "requests.hygon.com/dcu-mem": "16"}
    status = {"hard": hard, "used": {SLICES: "3"}}
    quota = read_quota({"metadata": {"name": "cards", "namespace": "default"}, "status": status})
    listed = KubeClient.list

    def with_quota(client: KubeClient, kind: Kind[Any], where: Where = EVERYWHERE) -> Listed[Any]:
        return Listed([quota]) if kind is QUOTAS else listed(client, kind, where)

    monkeypatch.setattr(KubeClient, "list", with_quota)
    assert main(["quota", "--no-headers", "--kubeconfig", str(fleet.kubeconfig)]) == 0
    shown = [(words[1], words[-1]) for words in map(str.split, capsys.readouterr().out.splitlines())]
    assert shown == [(SLICES, "3/8"), ("hygon.com/dcu-mem", "0/16")]
