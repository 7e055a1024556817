"""A folder from which nothing runs: the library in it would limit nobody, so no container starts."""

from collections.abc import Callable
from pathlib import Path

import pytest

from device_plugin.adapters import mounts
from device_plugin.core.errors import VgpuError
from device_plugin.node.checks.preflight import Preflight
from tests.namespaces import with_own_mounts
from tests.node.parts import Parts, Peer

SAYS = "is mounted noexec on the node"


def on_noexec(state: Path, body: Callable[[], None]) -> None:
    """Run `body` where the state lies on such a mount."""

    def mounted() -> None:
        state.mkdir()
        mounts.tmpfs(state, 8 << 20, 1000)
        body()

    with_own_mounts(mounted)


def test_preflight_names_it_and_its_cure(tmp_path: Path) -> None:
    (tmp_path / "pod-resources").mkdir()

    def body() -> None:
        preflight = Preflight(Peer(), tmp_path, tmp_path / "state", tmp_path, lambda: ())
        assert not preflight.check()
        (problem,) = preflight.problems
        assert SAYS in problem
        assert "remount it with exec" in problem

    on_noexec(tmp_path / "state", body)
    (tmp_path / "state").rmdir()
    assert not Preflight(Peer(), tmp_path, tmp_path / "state", tmp_path, lambda: ()).check()
    (tmp_path / "state").mkdir()
    assert Preflight(Peer(), tmp_path, tmp_path / "state", tmp_path, lambda: ()).check()


def test_no_container_starts(tmp_path: Path) -> None:
    def body() -> None:
        parts = Parts(tmp_path, Peer())
        parts.start()
        with pytest.raises(VgpuError, match=SAYS):
            parts.run()
        assert not list(parts.cdi.glob("vgpu-*.json"))

    on_noexec(tmp_path / "state", body)
