"""kubectl of the one-machine cluster, against the API server's stand-in: its words, its output, its exit codes."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from hack.demo import access
from hack.embedded.apiserver import EmbeddedApiServer
from hack.embedded.kubectl import streams
from hack.embedded.kubectl.command import main
from hack.embedded.kubectl.tables import duration

POD = """\
apiVersion: v1
kind: Pod
metadata: {name: one}
spec:
  containers: [{name: main, image: none}]
"""


@pytest.fixture(autouse=True)
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[EmbeddedApiServer]:
    """An API server without nodes, to which $KUBECONFIG leads; the folder has a pod's file."""
    server = EmbeddedApiServer()
    server.start()
    access.prepare(tmp_path, server.url)
    monkeypatch.setenv("KUBECONFIG", str(access.kubeconfig(tmp_path)))
    monkeypatch.chdir(tmp_path)
    Path("one.yaml").write_text(POD)
    yield server
    server.stop()


def said(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
    """The exit code of a command, and what it printed."""
    code = main(words)
    told = capsys.readouterr()
    return code, (told.out + told.err).strip()


def test_a_file_is_applied_once_and_changed_later(capsys: pytest.CaptureFixture[str]) -> None:
    assert said(capsys, "apply", "-f", "one.yaml") == (0, "pod/one created")
    assert said(capsys, "apply", "-f", "one.yaml") == (0, "pod/one unchanged")
    Path("one.yaml").write_text(POD.replace("{name: one}", "{name: one, labels: {team: a}}"))
    assert said(capsys, "apply", "-f", "one.yaml") == (0, "pod/one configured")
    code, listed = said(capsys, "get", "pods", "-l", "team=a")
    assert (code, listed.split()[:5], listed.split()[5:9]) == (
        0, ["NAME", "READY", "STATUS", "RESTARTS", "AGE"], ["one", "0/1", "Pending", "0"],
    )  # fmt: skip
    assert said(capsys, "delete", "pod", "one", "--now") == (0, 'pod "one" deleted from default namespace')


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("get pod nosuch", 'Error from server (NotFound): pods "nosuch" not found'),
        ("get nosuch", 'error: the server doesn\'t have a resource type "nosuch"'),
        ("get", "error: you must specify the type of resource"),
        ("logs nosuch", 'Error from server (NotFound): pods "nosuch" not found'),
        ("exec nosuch -- true", 'Error from server (NotFound): pods "nosuch" not found'),
        ("exec nosuch", "error: you must specify at least one command for the container"),
        ("port-forward nosuch 80", 'Error from server (NotFound): pods "nosuch" not found'),
        ("apply -f nosuch.yaml", 'error: the path "nosuch.yaml" cannot be read: No such file or directory'),
        ("wait --for=jsonpath=x pod/one", "error: --for=jsonpath=x is not served here: write condition=NAME or delete"),
        ("wait --for=delete pod/one --timeout=3", "error: '3' is no time: write 30s, 3m or 1h"),
        ("create quota", "error: write create -f FILE, create quota NAME --hard=… or create namespace NAME"),
        ("--context=nosuch get pods", "error: {kubeconfig} is no kubeconfig of the one-machine cluster: "
         "LookupError('nosuch')"),
        ("--kubeconfig=nosuch get pods", "error: nosuch: No such file or directory"),
    ],
)  # fmt: skip
def test_what_cannot_be_done_is_said_in_one_line(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, words: str, says: str
) -> None:
    expected = says.replace("{kubeconfig}", str(access.kubeconfig(tmp_path)))
    assert said(capsys, *words.split()) == (1, expected)


def test_nothing_found_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    assert said(capsys, "get", "pods") == (0, "No resources found in default namespace.")
    assert said(capsys, "get", "pods", "-A") == (0, "No resources found.")


def test_options_that_all_commands_share_stand_anywhere(capsys: pytest.CaptureFixture[str]) -> None:
    assert said(capsys, "get", "pods", "-n", "kube-system") == (
        0,
        "No resources found in kube-system namespace.",
    )
    assert (
        said(capsys, "get", "-A", "ns", "--as=jane", "-o", "name")[1].splitlines()[0] == "namespace/default"
    )


def test_a_label_that_is_there_is_not_overwritten(capsys: pytest.CaptureFixture[str]) -> None:
    said(capsys, "apply", "-f", "one.yaml")
    assert said(capsys, "label", "pod", "one", "team=a") == (0, "pod/one labeled")
    assert said(capsys, "label", "pod", "one", "team=a") == (0, "pod/one not labeled")
    assert said(capsys, "label", "pod", "one", "team=b") == (
        1, "error: 'team' already has a value (a), and --overwrite is false",
    )  # fmt: skip
    assert said(capsys, "label", "pod", "one", "team=b", "--overwrite") == (0, "pod/one labeled")
    assert said(capsys, "label", "pod", "one", "team-") == (0, "pod/one unlabeled")


def test_a_condition_that_does_not_come_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    said(capsys, "apply", "-f", "one.yaml")
    assert said(capsys, "wait", "--for=condition=Ready", "pod/one", "--timeout=0s") == (
        1, "error: timed out waiting for the condition on pods/one",
    )  # fmt: skip


def test_no_api_server_is_said(capsys: pytest.CaptureFixture[str], cluster: EmbeddedApiServer) -> None:
    cluster.stop()
    address = cluster.url.removeprefix("http://")
    says = f"The connection to the server {address} was refused - did you specify the right host or port?"
    assert said(capsys, "get", "pods") == (1, says)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0s"), (119, "119s"), (120, "2m"), (130, "2m10s"), (600, "10m"), (11_100, "3h5m"), (86_400, "24h"),
     (200_000, "2d7h"), (777_600, "9d")],
)  # fmt: skip
def test_ages_are_written_as_kubectl_writes_them(seconds: int, text: str) -> None:
    assert duration(seconds) == text


def test_options_may_stand_before_and_after_a_name_and_a_programs_words_are_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run = list[tuple[str, str, list[str]]]()

    def note(_: object, pod: str, container: str, program: list[str], **__: object) -> int:
        run.append((pod, container, program))
        return 0

    monkeypatch.setattr(streams, "run", note)
    words = ["exec", "--stdin", "one", "--container=main", "--namespace", "a", "--", "sh", "-c", "--", "-n"]
    assert main(words) == 0
    assert run == [("one", "main", ["sh", "-c", "--", "-n"])]
