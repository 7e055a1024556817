"""Settings that the node agent cannot work with end it at once, with a message that says which."""

import re
import socket
import threading
from pathlib import Path

import pytest

from device_plugin.wiring import nodes_file
from device_plugin.wiring.node import run
from device_plugin.wiring.settings import KubeSettings, NodeSettings, SettingsError
from vgpu_runtime import sim


@pytest.fixture
def settings(tmp_path: Path) -> dict[str, object]:
    """Those of an agent with one card, whose API server does not answer."""
    machine, library = tmp_path / "machine", tmp_path / "libvgpu.so"
    sim.build(sim.parse("version: v1\ncards: [{preset: hygon-60cu-16gib}]"), machine)
    library.write_text("the library\n")
    return {
        "node_name": "n1",
        "root": str(machine),
        "kubelet_dir": str(tmp_path / "kubelet"),
        "cdi_dir": str(tmp_path / "cdi"),
        "state_dir": str(tmp_path / "state"),
        "library": str(library),
        "http_listen": "127.0.0.1:0",
        "drain_seconds": 0,
        "kube": KubeSettings(server="http://127.0.0.1:1"),
    }


def _run(settings: dict[str, object], **changed: object) -> int:
    stop = threading.Event()
    stop.set()
    return run(NodeSettings(**{**settings, **changed}), stop)  # type: ignore[arg-type]  # fields by name


def test_an_agent_that_is_told_to_stop_at_once_ends_well(
    settings: dict[str, object], capsys: pytest.CaptureFixture[str]
) -> None:
    assert _run(settings) == 0
    assert re.match(r"[0-9-]{10} [0-9:]{8} listening http=127\.0\.0\.1:", capsys.readouterr().out)


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"root": "/nonexistent"}, "root: no folder /nonexistent: write where"),
        ({"http_listen": "nonsense"}, "cannot listen on nonsense"),
        ({"http_listen": "127.0.0.1:99999"}, "cannot listen on 127.0.0.1:99999"),
        ({"library": "/nowhere/libvgpu.so"}, "cannot use /nowhere/libvgpu.so"),
        ({"state_dir": "/proc/nowhere"}, "stateDir"),
        ({"prefixes": {"1d94": "a.com/dcu", "1002": "b.com/dcu"}}, "end alike"),
        ({"prefixes": {"hygon": "a.com/dcu"}}, "hexadecimal"),
    ],
)
def test_what_it_cannot_work_with_is_named(
    settings: dict[str, object], changed: dict[str, object], says: str
) -> None:
    with pytest.raises(SettingsError, match=says):
        _run(settings, **changed)


def test_a_stack_that_is_not_on_the_node_is_a_problem_where_its_cards_are(
    settings: dict[str, object], caplog: pytest.LogCaptureFixture
) -> None:
    mounts = {"1d94": ["/opt/stack"], "1002": ["/opt/rocm"]}
    assert _run(settings, mounts=mounts, prefixes={"1d94": "hygon.com/dcu", "1002": "amd.com/gpu"}) == 0
    said = [record.message for record in caplog.records if "mounts:" in record.message]
    assert len(said) == 1
    assert said[0].startswith(
        "preflight: mounts: /opt/stack is not there, or empty, and containers start without it"
    )


def test_an_agent_ends_well_once_its_settings_are_outdated(
    settings: dict[str, object], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(nodes_file, "LOOK_SECONDS", 0.01)
    monkeypatch.setattr(nodes_file.OwnSettings, "outdated", lambda _: True)
    with caplog.at_level("INFO"):
        assert run(NodeSettings(**settings), threading.Event()) == 0  # type: ignore[arg-type]  # fields by name
    assert "nodesFile has other settings for this node" in caplog.text


def test_a_port_that_is_taken_is_named(settings: dict[str, object]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(SettingsError, match=f"cannot listen on {address}"):
            _run(settings, http_listen=address)


def test_more_tickets_than_a_kubelet_bears_end_nothing(settings: dict[str, object]) -> None:
    assert _run(settings, mem_unit_mib=1) == 0
