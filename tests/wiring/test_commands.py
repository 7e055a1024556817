"""`vgpu` itself: bad input ends with one text that says what to write."""

import json
import sys

import pytest

from device_plugin.wiring.commands import main


def failed(words: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    with pytest.raises(SystemExit, match=r"^2$"):
        main(words)
    return capsys.readouterr().err


def test_the_help_lists_commands_by_what_they_are_for_and_no_services(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit, match=r"^0$"):
        main(["--help"])
    said = capsys.readouterr().out
    assert said.startswith("usage: vgpu COMMAND [OPTION]...\n")
    assert (
        said.index("See cards and pods:\n  nodes ")
        < said.index("Ask:\n  why ")
        < said.index("Run jobs:\n  run ")
    )
    assert "  demo " in said.partition("\nDevelop:\n")[2]
    assert not [
        line for line in said.splitlines() if line.startswith(("  node ", "  cluster ", "  job-engine "))
    ]


@pytest.mark.parametrize(
    ("typed", "hint"),
    [
        ("quue", "did you mean 'queue'?"),
        ("job", "did you mean 'jobs'?"),
        ("log", "did you mean 'logs'?"),
        ("uncorden", "did you mean 'uncordon'?"),
        ("x", "`vgpu --help` lists the commands"),
    ],
)
def test_a_command_that_there_is_not_is_named_with_one_that_there_is(
    typed: str, hint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    said = failed([typed], capsys)
    assert said == f"usage: vgpu COMMAND [OPTION]...\nvgpu: error: unknown command {typed!r}: {hint}\n"


def test_kubectl_names_itself_and_starts_no_service(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["/usr/bin/kubectl-vgpu"])
    for service in ("node", "cluster", "job-engine"):
        assert f"kubectl vgpu: error: unknown command '{service}': " in failed([service, "--help"], capsys)
    assert failed(["cards", "--bogus"], capsys).startswith("usage: kubectl vgpu cards ")


def test_an_unknown_flag_shows_the_usage_of_its_command(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match=r"^2$"):
        main(["node", "--bogus"])
    usage, error = capsys.readouterr().err.splitlines()
    assert usage.startswith("usage: vgpu node [--config FILE]")
    assert error == "vgpu node: error: unrecognized arguments: --bogus"


@pytest.mark.parametrize("service", [["node", "--node-name=a"], ["cluster", "--pod-name=a"]])
def test_an_unknown_log_level_is_refused_with_those_there_are(
    service: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("VGPU_LOG_LEVEL", "verbose")
    assert main([*service, "--kube-server=http://127.0.0.1:9"]) == 2
    assert capsys.readouterr().err == (
        "vgpu: VGPU_LOG_LEVEL: 'verbose' is no level: write DEBUG, INFO, WARNING or ERROR\n"
    )


def test_what_stands_after_two_dashes_is_another_programs(capsys: pytest.CaptureFixture[str]) -> None:
    words = [
        "run",
        "a",
        "--image=I",
        "--cards=1",
        "--dry-run",
        "-o",
        "json",
        "--",
        "sh",
        "--image",
        "--",
        "-x",
    ]
    assert main(words) == 0
    made = json.loads(capsys.readouterr().out)
    assert made["spec"]["template"]["spec"]["containers"][0]["command"] == ["sh", "--image", "--", "-x"]
    with pytest.raises(SystemExit, match=r"^2$"):
        main(["queue", "--", "x"])
    assert "unrecognized arguments: -- x\n" in capsys.readouterr().err
    with pytest.raises(SystemExit, match=r"^2$"):
        main(["run", "a", "--image=I", "--cards=1", "sh", "x"])
    assert "unrecognized arguments: sh x: write -- before the program" in capsys.readouterr().err


def test_an_error_quotes_what_others_wrote_as_text(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["convert", "/nowhere\x1b]0;title\x07\u202e"]) == 2
    said = capsys.readouterr().err
    assert "/nowhere\ufffd]0;title\ufffd\ufffd" in said
    assert all(line.isprintable() for line in said.splitlines())
