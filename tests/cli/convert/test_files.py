import json
from pathlib import Path

import pytest
import yaml

from device_plugin.wiring.commands import main

GPU = "{name: m, resources: {limits: {nvidia.com/gpu: 1}}}"
POD = f"kind: Pod # ours\nmetadata: {{name: a}}\nspec:\n  containers: [{GPU}]\n"


def converted(tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str) -> tuple[str, str]:
    """The standard output and the standard error of a conversion that succeeds."""
    file = tmp_path / "pods.yaml"
    file.write_text(text)
    assert main(["convert", str(file)]) == 0
    printed = capsys.readouterr()
    return printed.out, printed.err


@pytest.mark.parametrize(
    "around",
    [
        "# A licence.\n---\n{}", "# One.\n---\n# Two.\n\n{}", "# Only a comment.\n---\n{}---\n# And here.\n",
        "kind:   ConfigMap  # as it was\nmetadata: {{name:   a}}\n---\n{}", "{}...\n# end\n", "---\n---\n{}",
    ],
)  # fmt: skip
def test_all_text_around_a_pod_stays(tmp_path: Path, capsys: pytest.CaptureFixture[str], around: str) -> None:
    out, _ = converted(tmp_path, capsys, around.format(POD))
    assert out == around.format(POD.replace("nvidia.com/gpu", "hygon.com/dcu")).replace("...\n# end\n", "")


def test_a_file_without_a_change_stays_as_it_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = "kind:   Pod\nspec: {containers:   [{name: m}]}\n# no newline"
    assert converted(tmp_path, capsys, text)[0] == text


def test_json_stays_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = json.dumps(yaml.safe_load(POD))
    out, _ = converted(tmp_path, capsys, text)
    assert json.loads(out) == json.loads(text.replace("nvidia.com/gpu", "hygon.com/dcu"))


def test_yaml_in_the_style_of_json_stays_yaml(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out, _ = converted(tmp_path, capsys, f"{{kind: Pod, spec: {{containers: [{GPU}]}}}}\n")
    assert out == f"{{kind: Pod, spec: {{containers: [{GPU}]}}}}\n".replace("nvidia.com/gpu", "hygon.com/dcu")


def test_two_pods_that_share_limits_by_an_alias_are_both_converted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (
        "kind: List\nitems:\n"
        "- kind: Pod\n  metadata: {name: a}\n  spec:\n    schedulerName: hami-scheduler\n    containers:\n"
        "    - {name: m, resources: {limits: &l {nvidia.com/gpu: 1, nvidia.com/gpumem: 4096}}}\n"
        "- kind: Pod\n  metadata: {name: b}\n  spec:\n    schedulerName: hami-scheduler\n    containers:\n"
        "    - {name: m, resources: {limits: *l}}\n"
        "    - {name: n, resources: {limits: {<<: *l, cpu: 1}}}\n"
    )
    out, err = converted(tmp_path, capsys, text)
    a, b = yaml.safe_load(out)["items"]
    assert a["spec"]["schedulerName"] == b["spec"]["schedulerName"] == "vgpu-scheduler"
    limits = [container["resources"]["limits"] for container in b["spec"]["containers"]]
    assert limits == [{"hygon.com/dcu-mem": 4}, {"hygon.com/dcu-mem": 4, "cpu": 1}]
    assert "Pod b: schedulerName hami-scheduler is now vgpu-scheduler" in err
    assert "the aliases (*name) of a document are written out" in err


def test_an_error_names_the_line_of_the_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "pods.yaml"
    file.write_text("a: 1\n---\nb: 1\nb: 2\n")
    assert main(["convert", str(file)]) == 2
    assert "line 4" in capsys.readouterr().err


def test_files_are_written_as_documents_of_one_stream(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second = tmp_path / "a.yaml", tmp_path / "b.yaml"
    first.write_text("a: 1")
    second.write_text("---\nb: 2\n")
    assert main(["convert", str(first), str(second), str(first)]) == 0
    assert list(yaml.safe_load_all(capsys.readouterr().out)) == [{"a": 1}, {"b": 2}, {"a": 1}]
