import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from device_plugin.cli.convert import files
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
    assert out == around.format(POD.replace("nvidia.com/gpu", "hygon.com/dcu"))


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
    # The alias stands for the converted limits now; the merge key would too.
    assert "limits: *l" in out
    assert "<<: *l" in out
    assert "written out" not in err


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


LITERAL = """\
spec:
  containers:
    - name: main
      args:
        - |
          python train.py

        # the learning rate
        - "0.1"
      resources:
        limits:
          # one card
          nvidia.com/gpu: 1 # of eight
          nvidia.com/gpumem: 4096 # half of it
          memory: 4Gi

    # The second one.
    - name: log
"""


def test_a_change_is_no_change_of_texts_comments_or_indentation(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, _ = converted(tmp_path, capsys, LITERAL)
    meant = LITERAL.replace("nvidia.com/gpu: 1", "hygon.com/dcu-mem: 4")
    assert out == meant.replace("nvidia.com/gpumem: 4096 # half", "# half")


def test_a_comment_at_the_end_of_a_document_stays(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = f"{POD}# Next comes the service.\n---\nkind: Service\n"
    assert converted(tmp_path, capsys, text)[0] == text.replace("nvidia.com/gpu", "hygon.com/dcu")


@pytest.mark.parametrize("text", [LITERAL, POD, f"\ufeff{POD}", f"%YAML 1.1\n---\n{POD}---\n{POD}"])
def test_line_ends_and_a_byte_order_mark_stay(tmp_path: Path, text: str) -> None:
    file = tmp_path / "pod.yaml"
    file.write_bytes(text.replace("\n", "\r\n").encode())
    assert main(["convert", "-i", str(file)]) == 0
    found = file.read_bytes().decode()
    assert "hygon.com/dcu" in found
    assert found.count("\r\n") == found.count("\n")
    assert found.startswith("\ufeff") == text.startswith("\ufeff")


@pytest.mark.parametrize(
    "text",
    [
        '\ufeff{"kind":"Pod","spec":{"containers":[{"resources":{"limits":{"nvidia.com/gpu":"1"}}}]}}',
        '{\n\t"spec": {"containers": [\n\t\t{"resources": {"limits": {"nvidia.com/gpu":\t"1"}}}]}}\n',
        '{"u": "\\ud83d\\ude00\\/", "spec": {"containers": [{"resources": {"limits": {"nvidia.com/gpu": 1}}}]}}',
    ],
)
def test_json_stays_as_it_is_written(tmp_path: Path, text: str) -> None:
    file = tmp_path / "pod.json"
    file.write_text(text, encoding="utf-8")
    assert main(["convert", "-i", str(file)]) == 0
    meant = text.replace("nvidia.com/gpu", "hygon.com/dcu").replace('"1"', "1")
    assert file.read_text(encoding="utf-8") == meant


def test_an_error_in_json_is_one_of_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, why in (("pod.json", "it is not JSON: Expecting"), ("pod.yaml", "is not YAML")):
        (tmp_path / name).write_text('{"kind":"Pod"')
        assert main(["convert", str(tmp_path / name)]) == 2
        assert why in capsys.readouterr().err


def test_a_document_whose_text_would_get_another_value_stays(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "pod.yaml"
    for wrong in (f"{POD}more: 1\n", "{", ""):
        file.write_text(POD)
        monkeypatch.setattr(files, "edited", lambda *_, wrong=wrong: wrong)
        assert main(["convert", "-i", str(file)]) == 1
        assert "Pod a: not converted: its text cannot be changed safely" in capsys.readouterr().err
        assert file.read_text() == POD


def test_a_document_without_a_change_is_parsed_once_and_one_with_a_change_twice(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    parse, parsed = yaml.parse, []

    def counting(text: str, **options: Any) -> Any:
        parsed.append(text)
        return parse(text, **options)

    monkeypatch.setattr(yaml, "parse", counting)
    converted(tmp_path, capsys, "kind: ConfigMap\n")
    assert len(parsed) == 1
    converted(tmp_path, capsys, POD)
    assert len(parsed) == 3


@pytest.mark.parametrize(
    ("written", "meant"), [("&n 2", "hygon.com/dcu: 2"), ("0", "{}"), ("'1'", "hygon.com/dcu: 1")]
)
def test_amounts_are_read_as_they_are_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], written: str, meant: str
) -> None:
    out, _ = converted(tmp_path, capsys, POD.replace("gpu: 1", f"gpu: {written}"))
    assert meant in out


def test_half_a_character_of_json_cannot_be_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "pod.json"
    models = '"annotations": {"hygon.com/use-dcutype": "\\ud800"}'
    limits = '{"limits": {"hygon.com/dcunum": 1}}'
    text = (
        f'{{"kind": "Pod", "metadata": {{{models}}}, "spec": {{"containers": [{{"resources": {limits}}}]}}}}'
    )
    file.write_text(text)
    assert main(["convert", "-i", str(file)]) == 1
    assert "its text cannot be changed safely" in capsys.readouterr().err
    assert file.read_text() == text
