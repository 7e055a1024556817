import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from device_plugin.wiring.commands import main

POD = """\
# A comment that stays.
apiVersion: v1
kind: Pod
metadata: {name: demo}
spec:
  containers:
  - name: main # this one too
    image: "i:1"
    resources:
      limits:
%s
"""


def test_the_file_keeps_its_comments_and_order(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "pod.yaml"
    file.write_text(POD % "        nvidia.com/gpu: 1\n        nvidia.com/gpumem: 3000")
    assert main(["convert", str(file)]) == 0
    printed = capsys.readouterr()
    assert printed.out == (POD % "        hygon.com/dcu-mem: 3")
    assert "rounded up to 3 units" in printed.err
    assert main(["convert", "--in-place", "--prefix", "amd.com/gpu", str(file)]) == 0
    assert yaml.safe_load(file.read_text())["spec"]["containers"][0]["resources"]["limits"] == {
        "amd.com/gpu-mem": 3
    }
    assert "# A comment that stays." in file.read_text()


def test_a_workflow_keeps_its_comments_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = """\
apiVersion: argoproj.io/v1alpha1
kind: Workflow
metadata: {generateName: w-}
spec:
  templates:
  - name: main # of a card
    container: {image: x, resources: {limits: {%s}}} # a part
"""
    file = tmp_path / "workflow.yaml"
    file.write_text(text % "nvidia.com/gpu: 1, nvidia.com/gpumem: 4096")
    assert main(["convert", str(file)]) == 0
    assert capsys.readouterr().out == text % "hygon.com/dcu-mem: 4"


def test_nothing_is_written_where_one_file_is_wrong(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    good, bad = tmp_path / "good.yaml", tmp_path / "bad.yaml"
    good.write_text(POD % "        nvidia.com/gpu: 1")
    bad.write_text("{")
    assert main(["convert", "--in-place", str(good), str(bad)]) == 2
    assert "nvidia.com/gpu" in good.read_text()
    assert re.match(rf"vgpu: {bad} is not YAML: ", capsys.readouterr().err)


def test_the_exit_status_is_1_where_a_request_was_left(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "pod.yaml"
    file.write_text(POD % "        nvidia.com/gpu.shared: 1")
    assert main(["convert", str(file)]) == 1
    assert "Pod demo: not converted: container main: nvidia.com/gpu.shared" in capsys.readouterr().err


def test_what_the_author_of_a_file_wrote_is_text_on_the_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "pod.yaml"
    file.write_text(
        'kind: Pod\nmetadata: {name: "a\\e]0;x\\a\\u202Eb"}\n'
        'spec: {containers: [{name: "\\e[2J", resources: {limits: {nvidia.com/gpu: "\\e[31m"}}}]}\n',
        encoding="utf-8",
    )
    assert main(["convert", str(file)]) == 1
    said = capsys.readouterr().err
    assert "not converted" in said
    assert all(line.isprintable() for line in said.splitlines())


@pytest.mark.parametrize(
    "text",
    [
        "{metadata: [1], spec: {containers: [{name: m}]}}",
        "{metadata: x, spec: {containers: [{resources: {limits: {nvidia.com/gpu: 1}}}]}}",
        "{spec: {containers: [{resources: x}]}}",
        "{spec: {containers: [{resources: {limits: [1]}}]}}",
        "{spec: {containers: [{resources: {limits: {3: 4}}}]}}",
        "{spec: {nodeSelector: 5, containers: [{resources: {limits: {nvidia.com/gpu: 1}}}]}}",
    ],
)
def test_a_pod_of_another_form_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str) -> None:
    file = tmp_path / "pod.yaml"
    file.write_text(text, encoding="utf-8")
    assert main(["convert", "--in-place", str(file)]) == 2
    assert "a part of its pod is not as Kubernetes has it" in capsys.readouterr().err
    assert file.read_text() == text


@pytest.mark.parametrize("encoding", ["ascii", "gbk"])
def test_files_are_utf_8_whatever_the_encoding_of_the_terminal_is(encoding: str) -> None:
    text = (POD % "        nvidia.com/gpu: 1").replace("demo", "demo, annotations: {n: 中文}")
    words = [sys.executable, "-m", "device_plugin", "convert", "-"]
    environment = {**os.environ, "PYTHONIOENCODING": encoding}
    done = subprocess.run(words, input=text.encode(), capture_output=True, check=True, env=environment)
    assert done.stdout.decode() == text.replace("nvidia.com/gpu", "hygon.com/dcu")


@pytest.mark.parametrize("prefix", ["foo", "", "amd.com/gpu ", "http://x/y"])
def test_a_prefix_of_no_resource_is_an_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], prefix: str
) -> None:
    (tmp_path / "pod.yaml").write_text(POD % "        nvidia.com/gpu: 1")
    assert main(["convert", f"--prefix={prefix}", str(tmp_path / "pod.yaml")]) == 2
    assert f"--prefix: {prefix!r} names no resource: write domain/name" in capsys.readouterr().err


def test_a_file_without_a_change_is_not_written(tmp_path: Path) -> None:
    file = tmp_path / "map.yaml"
    file.write_bytes(b"kind: ConfigMap\r\n")
    file.chmod(0o444)
    before = file.stat()
    assert main(["convert", "-i", str(file)]) == 0
    assert file.stat().st_mtime_ns == before.st_mtime_ns


def test_all_files_are_converted_before_the_first_is_written(tmp_path: Path) -> None:
    good, bad = tmp_path / "good.yaml", tmp_path / "bad.yaml"
    text = POD % "        nvidia.com/gpu: 1"
    good.write_text(text)
    bad.write_text("{spec: {containers: [{resources: {limits: [1]}}]}}")
    assert main(["convert", "-i", str(good), str(bad)]) == 2
    assert good.read_text() == text


def test_a_pod_with_a_problem_is_left_wholly(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "pod.yaml"
    text = (
        POD % "        nvidia.com/gpu: 1" + "  - {name: s, resources: {limits: {nvidia.com/gpu.shared: 1}}}\n"
    )
    text = text.replace("spec:", "spec:\n  schedulerName: hami-scheduler")
    file.write_text(text)
    said = set()
    for _ in range(2):
        assert main(["convert", "-i", str(file)]) == 1
        said.add(capsys.readouterr().err)
    assert file.read_text() == text
    (line,) = "".join(said).splitlines()
    assert "Pod demo: not converted: container s: nvidia.com/gpu.shared" in line


def test_requests_that_stay_outside_of_pods_are_an_answer_of_no(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "all.yaml"
    quota = "kind: ResourceQuota\nmetadata: {name: q}\nspec: {hard: {requests.nvidia.com/gpu: 4}}\n"
    file.write_text(POD % "        nvidia.com/gpu: 1" + "---\n" + quota)
    assert main(["convert", str(file)]) == 1
    output = capsys.readouterr()
    assert (
        "ResourceQuota q: requests.nvidia.com/gpu (spec.hard) is not in a pod template; it stays"
        in output.err
    )
    assert "hygon.com/dcu: 1" in output.out
