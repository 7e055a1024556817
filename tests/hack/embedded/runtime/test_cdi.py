"""CDI specs and the lagging cache of them."""

import json
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from hack.embedded.runtime import cdi
from hack.embedded.runtime.cdi import CdiCache, CdiError, CdiMount, Edits, read_spec
from tests.deadline import until

LAG = 0.05
DEVICE = {"name": "one", "containerEdits": {"env": ["A=1"]}}


def spec(*devices: dict[str, Any], **more: object) -> str:
    return json.dumps({"cdiVersion": "0.6.0", "kind": "vgpu.io/slice", "devices": list(devices), **more})


def write(folder: Path, name: str, text: str) -> None:
    partial = folder / f".{name}.tmp"
    partial.write_text(text)
    partial.rename(folder / f"{name}.json")


@pytest.fixture
def cache(tmp_path: Path) -> Iterator[CdiCache]:
    made = CdiCache(tmp_path, LAG, seed=1)
    yield made
    made.close()


def resolvable(cache: CdiCache, name: str = "vgpu.io/slice=one") -> bool:
    try:
        cache.resolve([name])
    except CdiError:
        return False
    return True


def test_all_edits_of_a_device_are_read() -> None:
    edits = {
        "env": ["A=1=2"],
        "mounts": [{"hostPath": "/h", "containerPath": "/c", "options": ["ro", "bind"]}],
        "deviceNodes": [{"path": "/dev/kfd", "hostPath": "/sim/kfd"}, {"path": "/dev/null"}],
    }
    expected = Edits(
        {"A": "1=2"},
        (CdiMount("/h", "/c", ("ro", "bind")),),
        (("/sim/kfd", "/dev/kfd"), ("/dev/null", "/dev/null")),
    )
    assert read_spec(spec({"name": "one", "containerEdits": edits})) == {"vgpu.io/slice=one": expected}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        spec(),
        spec({"name": "one", "containerEdits": {}}),
        spec({"name": "one"}),
        spec({"name": "-one", "containerEdits": {"env": ["A=1"]}}),
        spec({"name": "one", "containerEdits": {"env": ["A"]}}),
        spec({"name": "one", "containerEdits": {"mounts": [{"hostPath": "/h"}]}}),
        spec({"name": "one", "containerEdits": {"hooks": [{}]}}),
        spec(DEVICE, kind="slice"),
        spec(DEVICE, cdiVersion="six"),
    ],
)
def test_a_malformed_spec_is_refused(text: str) -> None:
    with pytest.raises(CdiError):
        read_spec(text)


def test_a_change_is_seen_late_but_within_the_lag(
    tmp_path: Path, cache: CdiCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    lags: list[float] = []
    monkeypatch.setattr(cdi, "time", SimpleNamespace(sleep=lags.append))
    for _ in range(10):
        write(tmp_path, "one", spec(DEVICE))
        until(lambda: resolvable(cache))
        (tmp_path / "one.json").unlink()
        until(lambda: not resolvable(cache))
    assert len(lags) >= 20, "one before each look"
    assert all(0 <= lag <= LAG for lag in lags)
    assert max(lags) > LAG / 2


def test_two_files_that_define_one_device_cancel_each_other(tmp_path: Path, cache: CdiCache) -> None:
    write(tmp_path, "a", spec(DEVICE))
    until(lambda: resolvable(cache))
    write(tmp_path, "b", spec(DEVICE, {"name": "two", "containerEdits": {"env": ["B=2"]}}))
    until(lambda: not resolvable(cache))
    assert resolvable(cache, "vgpu.io/slice=two")
    (tmp_path / "a.json").unlink()
    until(lambda: resolvable(cache))


def test_a_malformed_file_does_not_hide_the_others(tmp_path: Path, cache: CdiCache) -> None:
    write(tmp_path, "a", "garbage")
    write(tmp_path, "b", spec(DEVICE))
    until(lambda: resolvable(cache))


def test_every_unresolvable_name_is_listed(cache: CdiCache) -> None:
    with pytest.raises(CdiError, match=r"unresolvable CDI devices vgpu.io/slice=x, vgpu.io/slice=y"):
        cache.resolve(["vgpu.io/slice=x", "vgpu.io/slice=y"])
