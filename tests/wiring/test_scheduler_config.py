"""`vgpu scheduler-config`: what the template leaves out comes from the settings."""

from pathlib import Path

import pytest
import yaml

from device_plugin.wiring.commands import main

TEMPLATE = "profiles: [{}, {schedulerName: own}]\nextenders: [{urlPrefix: a}, {managedResources: [{name: theirs}]}]\n"


def test_names_and_resources_are_filled_in_and_what_is_there_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "template.yaml").write_text(f"leaderElection: {{leaderElect: true}}\n{TEMPLATE}")
    monkeypatch.setenv("VGPU_PREFIXES", "[vendor.com/dcu]")
    monkeypatch.setenv("VGPU_SCHEDULER_NAME", "theirs")
    monkeypatch.setenv("VGPU_LEASE_NAMESPACE", "gpu-team")
    assert main(["scheduler-config", f"--template={tmp_path}/template.yaml", f"--out={tmp_path}/out"]) == 0
    tails = ("", "-mem", "-cores", "-percent", "-slices")
    managed = [{"name": f"vendor.com/dcu{tail}", "ignoredByScheduler": False} for tail in tails]
    assert yaml.safe_load((tmp_path / "out").read_text()) == {
        "leaderElection": {"leaderElect": True, "resourceNamespace": "gpu-team"},
        "profiles": [{"schedulerName": "theirs"}, {"schedulerName": "own"}],
        "extenders": [
            {"urlPrefix": "a", "managedResources": managed},
            {"managedResources": [{"name": "theirs"}]},
        ],
    }


def test_with_claims_every_pod_is_asked_about_and_kube_scheduler_allocates_no_claim(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "template.yaml").write_text(TEMPLATE)
    assert main(["scheduler-config", f"--template={tmp_path}/template.yaml", "--claims=true"]) == 0
    found = yaml.safe_load(capsys.readouterr().out)
    plugins = {
        "multiPoint": {"disabled": [{"name": "DynamicResources"}]},
        "preEnqueue": {"enabled": [{"name": "DynamicResources"}]},
    }
    assert [profile["plugins"] for profile in found["profiles"]] == [plugins, plugins]
    assert found["extenders"] == [{"urlPrefix": "a"}, {"managedResources": [{"name": "theirs"}]}]


def test_a_namespace_of_the_lease_that_is_there_stays(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "template.yaml").write_text(f"leaderElection: {{resourceNamespace: theirs}}\n{TEMPLATE}")
    assert main(["scheduler-config", f"--template={tmp_path}/template.yaml"]) == 0
    assert yaml.safe_load(capsys.readouterr().out)["leaderElection"] == {"resourceNamespace": "theirs"}


def test_without_a_file_it_is_printed_and_stdout_is_not_opened_anew(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "template.yaml").write_text(TEMPLATE)
    assert main(["scheduler-config", f"--template={tmp_path}/template.yaml"]) == 0
    assert "name: hygon.com/dcu-mem" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[]", "not a KubeSchedulerConfiguration: "),
        ("a: b", "not a KubeSchedulerConfiguration: it has no profiles"),
        ("profiles: []", "not a KubeSchedulerConfiguration: it has no extenders"),
        ("profiles: [[]]\nextenders: []", "not a KubeSchedulerConfiguration: "),
        ("a: [", "not YAML: line "),
        ("profiles: 1", "not a KubeSchedulerConfiguration: "),
        ("leaderElection: true\nprofiles: []\nextenders: []", "not a KubeSchedulerConfiguration: "),
    ],
)
def test_another_file_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, says: str
) -> None:
    (tmp_path / "template.yaml").write_text(text)
    assert main(["scheduler-config", f"--template={tmp_path}/template.yaml", f"--out={tmp_path}/out"]) == 2
    assert f"template.yaml is {says}" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_a_file_that_cannot_be_read_or_written_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["scheduler-config", f"--template={tmp_path}/none"]) == 2
    assert f"template {tmp_path}/none: No such file" in capsys.readouterr().err
    (tmp_path / "template.yaml").write_text(TEMPLATE)
    assert main(["scheduler-config", f"--template={tmp_path}/template.yaml", f"--out={tmp_path}/no/out"]) == 2
    assert f"cannot write {tmp_path}/no/out: No such file" in capsys.readouterr().err
