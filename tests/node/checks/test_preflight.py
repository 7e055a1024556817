"""Preflight says once what the node lacks, and again when it has come back."""

from pathlib import Path

import pytest

from device_plugin.node.checks.preflight import Preflight
from tests.node.parts import Peer


@pytest.mark.parametrize(
    ("kubelet", "runtime", "says"),
    [
        ("v1.30.9", "containerd://1.7.2", "kubelet v1.30.9"),
        ("v1.31.0", "containerd://1.6.33", "containerd 1.6.33"),
        ("v1.36.1", "cri-o://1.27.1", "cri-o 1.27.1"),
        ("v1.31.0", "containerd://2.2.0", ""),
        ("v1.36.0-embedded", "embedded://1", ""),
        ("", "", ""),
    ],
)
def test_preflight_names_what_is_too_old_once(tmp_path: Path, kubelet: str, runtime: str, says: str) -> None:
    (tmp_path / "pod-resources").mkdir()
    api = Peer(kubelet=kubelet, runtime=runtime)
    preflight = Preflight(api, tmp_path, tmp_path, tmp_path, lambda: ())
    assert [preflight.check() for _ in range(3)] == [not says] * 3
    assert [says in message for _, message in api.events] == ([True] if says else [])


@pytest.mark.parametrize(
    ("runtime", "hints"), [("containerd://1.7.27", 1), ("containerd://2.0.1", 0), ("cri-o://1.28.0", 0)]
)
def test_preflight_logs_once_that_containerd_may_have_cdi_off(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, runtime: str, hints: int
) -> None:
    (tmp_path / "pod-resources").mkdir()
    api = Peer(kubelet="v1.31.0", runtime=runtime)
    preflight = Preflight(api, tmp_path, tmp_path, tmp_path, lambda: ())
    assert [preflight.check() for _ in range(3)] == [True] * 3
    assert api.events == []
    assert caplog.text.count("enable_cdi = true") == hints


def test_preflight_says_again_what_had_gone(tmp_path: Path) -> None:
    (tmp_path / "pod-resources").mkdir()
    api, others = Peer(), ["another plugin"]
    preflight = Preflight(api, tmp_path, tmp_path, tmp_path, lambda: others)
    assert [preflight.check() for _ in range(2)] == [False, False]
    others.clear()
    assert preflight.check()
    others.append("another plugin")
    assert not preflight.check()
    assert api.events == [("Preflight", "another plugin")] * 2
    assert preflight.problems == ("another plugin",)


def test_preflight_says_that_pods_cannot_be_watched(tmp_path: Path) -> None:
    (tmp_path / "pod-resources").mkdir()
    preflight = Preflight(Peer(up=False), tmp_path, tmp_path, tmp_path, lambda: ["no cgroups"])
    assert not preflight.check()
    assert preflight.problems == ("no cgroups",)
