"""Settings: precedence, and bad input that names its key and its source."""

import argparse
from pathlib import Path

import pytest

from device_plugin.wiring import settings
from device_plugin.wiring.commands import main
from device_plugin.wiring.settings import ClusterSettings, NodeSettings, SettingsError


def load(argv: list[str], environ: dict[str, str]) -> NodeSettings:
    parser = argparse.ArgumentParser()
    settings.add_flags(parser, NodeSettings)
    return settings.load(NodeSettings, vars(parser.parse_args(argv)), environ)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "node.yaml"
    path.write_text("version: v1\nnodeName: from-file\nmemUnitMiB: 512\nkube:\n  server: http://file\n")
    return path


def test_a_flag_beats_the_environment_which_beats_the_file_which_beats_the_default(file: Path) -> None:
    argv = ["--config", str(file), "--node-name", "from-flag"]
    loaded = load(argv, {"VGPU_NODE_NAME": "from-env", "VGPU_KUBE_SERVER": "http://env"})
    assert loaded.node_name == "from-flag"
    assert loaded.kube.server == "http://env"
    assert loaded.mem_unit_mib == 512
    assert loaded.state_dir == "/var/lib/vgpu"


def test_lists_and_maps_are_given_as_yaml() -> None:
    loaded = load(["--exclude-cards", "[a, b]"], {"VGPU_PREFIXES": "{1d94: vendor.com/dcu}"})
    assert loaded.exclude_cards == ["a", "b"]
    assert loaded.prefixes == {"1d94": "vendor.com/dcu"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("version: v1\nnodename: a\n", "unknown field `nodename`.*The settings are: nodeName, root"),
        ("version: v1\nkube: {sever: a}\n", "unknown field `sever`"),
        ("version: v1\nmemUnitMiB: many\n", "Expected `int`, got `str` - at `\\$.memUnitMiB`"),
        ("version: v1\nmemUnitMiB: 0\n", "Expected `int` >= 1"),
        ("version: v2\n", "write `version: v1` \\(found 'v2'\\)"),
        ("nodeName: a\n", "write `version: v1` \\(found None\\)"),
        ("- a\n", "expected `key: value` lines"),
        ("a: [\n", "not YAML"),
    ],
)
def test_a_bad_file_is_refused_with_its_name_and_the_cause(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "bad.yaml"
    path.write_text(text)
    with pytest.raises(SettingsError, match=message) as error:
        load(["--config", str(path)], {})
    assert str(path) in str(error.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"nothing\.yaml: No such file"):
        load([], {"VGPU_CONFIG": str(tmp_path / "nothing.yaml")})


def test_a_bad_variable_is_named() -> None:
    with pytest.raises(SettingsError, match=r"^VGPU_MEM_UNIT_MIB: Expected `int`"):
        load([], {"VGPU_MEM_UNIT_MIB": "much"})


@pytest.mark.parametrize("kind", [NodeSettings, ClusterSettings])
def test_every_setting_has_a_help_text(kind: type[NodeSettings]) -> None:
    parser = argparse.ArgumentParser()
    settings.add_flags(parser, kind)
    assert all(action.help for action in parser._actions)


@pytest.mark.parametrize(("command", "key"), [("node", "nodeName"), ("cluster", "podName")])
def test_a_service_without_its_name_says_how_to_give_it(
    command: str, key: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("VGPU_NODE_NAME", raising=False)
    monkeypatch.delenv("VGPU_POD_NAME", raising=False)
    assert main([command]) == 2
    assert f"{key} is missing: give --" in capsys.readouterr().err
