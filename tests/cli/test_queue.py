"""The queue as people see it: the engine runs here, and `kubectl` is a script that says where it listens."""

import json
import re
import threading
import time
from argparse import Namespace
from collections.abc import Callable, Iterator
from http import HTTPStatus
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest
import yaml
from pytest_mock import MockerFixture

from device_plugin.adapters.kube.client import KubeClient
from device_plugin.cli import queue
from device_plugin.cli.access import engine, kubectl_says, port_forward
from device_plugin.cli.printing import output
from device_plugin.kube.errors import ForbiddenError, RefusedError
from device_plugin.wiring import jobs
from device_plugin.wiring.commands import main
from device_plugin.wiring.settings import JobsSettings, KubeSettings
from hack.demo.session import process_start
from hack.embedded.apiserver import EmbeddedApiServer
from hack.embedded.apiserver.server import job_policy_files, policy_files
from tests.builders import objects
from tests.builders.cards import FAMILY
from tests.cli.fleet import USERS, Fleet
from tests.contract.cluster import JOBS
from tests.deadline import eventually, until

PERSON = "token-of-person"
WHO = {"token-of-engine": "system:serviceaccount:vgpu-system:vgpu-jobs", PERSON: "person"}
LEASES = "/apis/coordination.k8s.io/v1/namespaces/vgpu-system/leases"
KLOG = 'echo \'E1124 05:52:49.464210   30475 memcache.go:265] "Unhandled Error" err="no list"\' >&2\n'
FORWARDS = """#!/bin/sh
echo "$KUBECONFIG $*" > {0}/asked
echo "Forwarding from 127.0.0.1:{1} -> 9404"
exec /bin/sleep 1000
"""


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    """The policies of the job engine are in force, and there are two cards."""
    server = EmbeddedApiServer([*policy_files(), *job_policy_files()], tokens=USERS | WHO)
    server.start()
    made = Fleet(server, tmp_path)
    made.node("n1", 2)
    yield made
    made.close()
    server.stop()


def kubectl(monkeypatch: pytest.MonkeyPatch, folder: Path, script: str) -> None:
    """The only kubectl in $PATH is this script."""
    programs = folder / "programs"
    programs.mkdir()
    (programs / "kubectl").write_text(script)
    (programs / "kubectl").chmod(0o755)
    monkeypatch.setenv("PATH", str(programs))


def answer_of(port: str) -> dict[str, Any]:
    """The answer of the engine that listens at this port."""
    connection = HTTPConnection("127.0.0.1", int(port), timeout=60)
    try:
        connection.request("GET", "/explain", headers={"Accept": "application/json"})
        found: dict[str, Any] = json.load(connection.getresponse())
    finally:
        connection.close()
    return found


@pytest.fixture
def engine_of(
    fleet: Fleet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Fleet]:
    """The fleet, with a job engine that plans."""
    token = tmp_path / "token"
    token.write_text("token-of-engine")
    settings = JobsSettings(
        pod_name="vgpu-jobs-0", explain_listen="127.0.0.1:0", http_listen="127.0.0.1:0",
        kube=KubeSettings(server=fleet.url, token_file=str(token)),
    )  # fmt: skip
    stop = threading.Event()
    thread = threading.Thread(target=jobs.run, args=(settings, stop))
    thread.start()
    line = eventually(lambda: capsys.readouterr().out, 60)
    port = line.partition("listening")[2].split()[0].rpartition(":")[2]
    kubectl(monkeypatch, tmp_path, FORWARDS.format(tmp_path, port))
    until(lambda: not answer_of(port)["problem"], "the engine plans")
    yield fleet
    stop.set()
    thread.join(60)
    assert not thread.is_alive()


def vgpu(fleet: Fleet, *words: str) -> int:
    return main([*words, "--kubeconfig", str(fleet.kubeconfig)])


@pytest.fixture
def asked(engine_of: Fleet, capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Runs a command that succeeds; returns what it prints."""

    def ask(*words: str) -> str:
        assert vgpu(engine_of, *words) == 0, capsys.readouterr().err
        return capsys.readouterr().out

    return ask


def submit(fleet: Fleet, name: str, width: int, **labels: str) -> None:
    body = objects.job(name, width, pod={"containers": [objects.container(limits={FAMILY: 1})]})
    body["metadata"]["labels"] = {"vgpu.io/queue": "default", **labels}
    body["spec"]["suspend"] = True
    fleet.post(JOBS, body)


def test_the_port_is_that_of_the_engine() -> None:
    assert JobsSettings(pod_name="a").explain_listen == f"127.0.0.1:{engine.PORT}"


def test_the_jobs_of_a_queue_are_listed(
    engine_of: Fleet, asked: Callable[..., str], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert vgpu(engine_of, "queue") == 0
    assert "no job of namespace default is in a queue" in capsys.readouterr().err
    assert vgpu(engine_of, "queue", "-A") == 0
    assert capsys.readouterr() == ("", "no job is in a queue\n")
    submit(engine_of, "first", 2)
    until(lambda: "starting" in asked("queue"), "first is admitted")
    submit(engine_of, "second", 2)
    until(lambda: "waits for room" in asked("queue"), "second waits")
    header, second, waits, change, first, *_ = asked("queue", "-A").splitlines()
    assert header.split()[0] == "NAMESPACE"
    assert second.split()[:8] == ["default", "second", "default", "1", "waiting", "0", "2", "2"]
    assert waits == "    waits for room for 2 of its pods"
    assert change.startswith("    next: goes before others of its priority in 59m")
    assert first.split()[4:8] == ["starting", "2", "2", "2"]
    header, second, _ = asked("queue", "-o", "wide").splitlines()
    assert second[header.index("WAITS FOR") :].startswith("room for 2 pods ")
    assert second[header.index("REASON") :] == "waits for room for 2 of its pods"
    assert second[header.index("WIDTHS") :].startswith("<none> ")
    assert asked("queue", "-l", "vgpu.io/queue=default,team!=a", "-o", "name").split() == [
        "job/default/second", "job/default/first",
    ]  # fmt: skip
    assert asked("queue", "-l", "team=a", "-o", "name") == ""
    found = json.loads(asked("queue", "-o", "json"))["jobs"]
    assert [(job["name"], job["place"]) for job in found] == [("second", 1), ("first", None)]
    assert asked("queue", "-o", "name", "--sort-by=-name") == "job/default/second\njob/default/first\n"
    assert asked("queue", "--sort-by=name").splitlines()[1].startswith("first ")
    assert [job["name"] for job in yaml.safe_load(asked("queue", "-o", "yaml"))["jobs"]] == [
        "second",
        "first",
    ]
    assert asked("queue", "-n", "other") == ""
    words = "--namespace=vgpu-system port-forward --address=127.0.0.1 pod/vgpu-jobs-0 :9404"
    assert (tmp_path / "asked").read_text() == f"{engine_of.kubeconfig} {words}\n"


def test_why_a_job_waits_is_told_in_parts(engine_of: Fleet, asked: Callable[..., str]) -> None:
    submit(engine_of, "large", 3)
    until(lambda: "ask for fewer" in asked("queue", "-o", "json"))
    line, *reasons = asked("why", "default/large").splitlines()
    assert line.startswith("default/large refused: needs 3 replicas, and 2 fit even if")
    assert reasons[0] == "  Queue default, width 0 (3 to 3)"
    assert re.fullmatch(r"  Refused for [0-9]+ s", reasons[-1])
    (found,) = json.loads(asked("why", "default/large", "-o", "json"))["jobs"]
    assert found["answer"] == line
    assert re.fullmatch(r"Refused since [0-9-]+T[0-9:]+Z", found["reasons"][-1])


@pytest.mark.parametrize(
    ("command", "absent", "free"),
    [
        (
            "why",
            "there is no pod or job other/none: see `kubectl -n other get",
            "default/free waits, and the job",
        ),
        ("queue admit", "there is no job other/none: see `kubectl get jobs -A`", "job default/free"),
    ],
)
def test_a_job_that_is_not_there_or_in_no_queue_is_told_what_it_lacks(
    engine_of: Fleet, capsys: pytest.CaptureFixture[str], command: str, absent: str, free: str
) -> None:
    assert vgpu(engine_of, *command.split(), "none", "-n", "other") == 2
    assert absent in capsys.readouterr().err
    engine_of.post(JOBS, objects.job("free", 1))
    assert vgpu(engine_of, *command.split(), "free") == 2
    assert f"{free} is in no queue" in capsys.readouterr().err


def test_a_job_is_started_by_hand_by_those_who_may(
    fleet: Fleet, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    submit(fleet, "train", 3)
    submit(fleet, "theirs", 1, **{"kueue.x-k8s.io/queue-name": "team"})
    config = json.loads(fleet.kubeconfig.read_text())
    config["users"][0]["user"]["token"] = PERSON
    person = tmp_path / "person"
    person.write_text(json.dumps(config))
    assert main(["queue", "admit", "train", "--kubeconfig", str(person)]) == 2
    assert "who has the verb admit on jobs.vgpu.io" in capsys.readouterr().err
    assert fleet.get(f"{JOBS}/train")["spec"]["suspend"] is True
    assert main(["queue", "--kubeconfig", str(fleet.kubeconfig), "admit", "train"]) == 0
    assert capsys.readouterr().out == "default/train starts with 3 pods\n"
    assert fleet.get(f"{JOBS}/train")["spec"]["suspend"] is False
    assert vgpu(fleet, "queue", "admit", "train") == 0
    assert capsys.readouterr().out == "default/train was started before\n"
    assert vgpu(fleet, "queue", "admit", "theirs") == 2
    assert "job default/theirs is Kueue's" in capsys.readouterr().err
    submit(fleet, "held", 1)
    fleet.patch(f"{JOBS}/held", {"metadata": {"annotations": {"vgpu.io/hold": "true"}}})
    assert vgpu(fleet, "queue", "admit", "held") == 2
    assert (
        "is held, and would be stopped again: release it with `vgpu resume held`" in capsys.readouterr().err
    )


def test_without_an_engine_it_shows_the_jobs_and_says_how_to_install_one(
    fleet: Fleet, capsys: pytest.CaptureFixture[str]
) -> None:
    submit(fleet, "train", 1)
    cure = (
        "no job engine is installed in namespace vgpu-system: add manifests/components/jobs to your overlay,"
        " or name its namespace with --engine-namespace\n"
    )
    assert vgpu(fleet, "jobs", "-o", "name") == 0
    note = "places and forecasts are not known, only what the Jobs say"
    assert capsys.readouterr() == ("job/default/train\n", f"{note}: {cure}")
    assert vgpu(fleet, "why", "train") == 2
    assert capsys.readouterr().err == f"vgpu: {cure}"


def test_who_may_not_read_the_lease_is_told_which_role_to_ask_for(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    refused: RefusedError = ForbiddenError(
        'leases "vgpu-jobs" is forbidden', HTTPStatus.FORBIDDEN, "Forbidden"
    )

    def get(*_: object) -> None:
        raise refused

    submit(fleet, "train", 1)
    monkeypatch.setattr(KubeClient, "get", get)
    assert vgpu(fleet, "queue", "--no-headers") == 0
    said = capsys.readouterr()
    assert said.out.split()[:7] == ["train", "default", "<none>", "waiting", "0", "1", "1"]
    assert "is forbidden (403 Forbidden): have an administrator bind the Role" in said.err
    refused = RefusedError("too many requests", HTTPStatus.TOO_MANY_REQUESTS, "TooManyRequests")
    assert vgpu(fleet, "queue") == 2
    assert "Role" not in capsys.readouterr().err


def lease(fleet: Fleet, holder: str) -> None:
    """This replica of the engine plans."""
    body: dict[str, Any] = {
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "vgpu-jobs"},
        "spec": {"holderIdentity": holder},
    }  # fmt: skip
    fleet.post(LEASES, body)


def test_of_a_kubectl_that_runs_another_one_nothing_is_left(
    fleet: Fleet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    chosen = tmp_path / "pid"
    says = "Forwarding from 127.0.0.1:1 -> 9404"
    kubectl(monkeypatch, tmp_path, f"#!/bin/sh\n/bin/sleep 1000 & echo $! > {chosen}\necho '{says}'\nwait\n")
    lease(fleet, "vgpu-jobs-0")
    assert vgpu(fleet, "queue") == 0
    assert "does not answer" in capsys.readouterr().err
    until(lambda: process_start(int(chosen.read_text())) is None)


@pytest.mark.parametrize(
    ("seconds", "script", "says"),
    [
        (
            60.0, "#!/bin/sh\necho 'error: forbidden' >&2\nexit 1\n",
            "vgpu-system/vgpu-jobs-0: forbidden: have an administrator bind the Role ask-job-engine",
        ),
        (60.0, f"#!/bin/sh\n{KLOG * 4}echo 'no pods here' >&2\nexit 1\n", "vgpu-jobs-0: no pods here\n"),
        (0.2, "#!/bin/sh\nexec /bin/sleep 1000\n", "vgpu-jobs-0: no answer within 0.2 s"),
        (60.0, "#!/nowhere\n", "cannot be run (No such file or directory): install it into a folder of $PATH"),
        (
            60.0, "#!/bin/sh\necho 'Forwarding from 127.0.0.1:1 -> 9404'\nexec /bin/sleep 1000\n", "does not answer",
        ),
    ],
)  # fmt: skip
def test_a_kubectl_that_cannot_forward_is_told_why(
    fleet: Fleet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
    seconds: float, script: str, says: str,
) -> None:  # fmt: skip
    monkeypatch.setattr(port_forward, "TIMEOUT_SECONDS", seconds)
    kubectl(monkeypatch, tmp_path, script)
    lease(fleet, "")
    assert vgpu(fleet, "queue") == 0
    assert "no replica of the job engine leads now" in capsys.readouterr().err
    fleet.patch(f"{LEASES}/vgpu-jobs", {"spec": {"holderIdentity": "vgpu-jobs-0"}})
    assert vgpu(fleet, "queue") == 0
    said = capsys.readouterr().err
    assert says in said
    assert "memcache.go" not in said


def test_kubectls_log_is_shown_to_who_asks_for_details(
    fleet: Fleet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    kubectl(monkeypatch, tmp_path, f"#!/bin/sh\n{KLOG}echo 'no pods here' >&2\nexit 1\n")
    lease(fleet, "vgpu-jobs-0")
    with caplog.at_level("DEBUG", kubectl_says.__name__):
        assert vgpu(fleet, "queue", "-v") == 0
    assert "memcache.go" in caplog.text
    assert "memcache.go" not in capsys.readouterr().err


def test_the_namespace_is_that_of_the_context_unless_one_is_named(
    engine_of: Fleet, asked: Callable[..., str], capsys: pytest.CaptureFixture[str]
) -> None:
    config = json.loads(engine_of.kubeconfig.read_text())
    config["contexts"][0]["context"]["namespace"] = "team-a"
    engine_of.kubeconfig.write_text(json.dumps(config))
    assert asked("queue") == ""
    assert vgpu(engine_of, "queue") == 0
    assert "no job of namespace team-a is in a queue" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(-5, "0s"), (0, "0s"), (59.9, "59s"), (90, "1m30s"), (3600, "1h"), (3605, "1h"), (90061, "1d1h")],
)
def test_ages_have_at_most_two_units(seconds: float, shown: str) -> None:
    assert output.age(seconds) == shown


def told(**changes: object) -> dict[str, Any]:
    """A job that runs, as the job engine tells of it."""
    return {
        "namespace": "a", "name": "train", "queue": "default", "place": None, "phase": "running", "width": 4, "min": 1,
        "max": 8, "progress": {"done": 12, "total": 30}, "secondsLeft": 90, "secondsStuck": None, "waitsFor": "",
        "since": 1, "pool": None, "nextChange": {"what": "may grow", "from": 1000}, "why": "until 08:00", **changes,
    }  # fmt: skip


def test_a_workload_of_another_kind_is_named_by_its_kind(
    fleet: Fleet, capsys: pytest.CaptureFixture[str], mocker: MockerFixture
) -> None:
    rows = [told(name=name) for name in ("tune", "rayjob/tune", "jobset/tune")]
    mocker.patch.object(engine, "jobs", return_value=rows)
    assert vgpu(fleet, "jobs", "rayjob/tune", "-n", "a", "-o", "name") == 0
    assert vgpu(fleet, "jobs", "tune", "jobsets/tune", "-n", "a", "-o", "name") == 0
    first, *others = capsys.readouterr().out.splitlines()
    assert first == "job/a/rayjob/tune"
    assert sorted(others) == ["job/a/jobset/tune", "job/a/tune"]


def test_the_widths_that_a_job_lists_have_a_column_of_the_wide_list() -> None:
    (column,) = [column for column in queue.LISTING.columns if column.title == "WIDTHS"]
    assert column.wide
    assert [column.text(told(widths=each)) for each in ([1, 2, 4], None)] == ["1,2,4", "<none>"]
    assert column.text(told()) == "<none>", "an engine of an older version"


@pytest.mark.parametrize(
    ("changes", "printed"),
    [
        ({"progress": {"done": 13, "total": 30}, "secondsLeft": 80, "why": "until 08:01"}, False),
        ({"nextChange": {"what": "may grow", "from": 1010}}, False),
        ({"nextChange": {"what": "goes from 4 to 2 pods", "from": 1000}}, True),
        ({"nextChange": None}, True),
        ({"phase": "resizing"}, True),
        ({"width": 2}, True),
        ({"place": 1}, True),
        ({"max": 4}, True),
        ({"waitsFor": "pods that leave or come"}, True),
        ({"secondsStuck": 600}, True),
        ({"why": "until 08:00; the API server refuses its other pods: exceeded quota"}, True),
    ],
    ids=str,
)
def test_a_job_is_printed_again_for_what_a_reader_acts_on(
    capsys: pytest.CaptureFixture[str], changes: dict[str, object], *, printed: bool
) -> None:
    printer = output.ListPrinter(Namespace(output="name", sort_by=None, no_headers=False), queue.LISTING)
    printer.remember([told()])
    printer.show_changes([told(**changes)])
    assert bool(capsys.readouterr().out) is printed


GIVEN = "pods of a/train-1 leave, so that it can start"
QUOTA = "waits for room for 2 of its pods; the API server refuses its other pods: exceeded quota: q, used: x/y-mem=8"
POLICY = 'the API server refuses its other pods: pods "a-0-x7k2p" is forbidden: no priority class'


@pytest.mark.parametrize(
    ("before", "after", "printed"),
    [
        ("it can have 50 min with 1 card", "it can have 1 h 2 min with 1 card", False),
        ("write 11h40m: 1,000 samples", "write 59m: 990 samples", False),
        (
            "it does not grow before 2026-11-24T00:59:59Z",
            "it does not grow before 2026-11-25T01:00:00Z",
            False,
        ),
        (QUOTA, QUOTA.replace("=8", "=12"), False),
        (QUOTA, QUOTA.replace("=8", "=12Gi"), False),
        (QUOTA, QUOTA.replace("quota: q", "quota: r"), True),
        (QUOTA, QUOTA.partition(";")[0], True),
        (POLICY, POLICY.replace("x7k2p", "9wq4z"), False),
        (POLICY, POLICY.replace("priority", "runtime"), True),
        (GIVEN, GIVEN.replace("train-1", "train-2"), True),
        (GIVEN, GIVEN.replace("a/train-1", "a/17"), True),
    ],
)
def test_a_job_is_printed_again_once_its_reason_means_another_thing(
    capsys: pytest.CaptureFixture[str], before: str, after: str, *, printed: bool
) -> None:
    printer = output.ListPrinter(Namespace(output="name", sort_by=None, no_headers=False), queue.LISTING)
    printer.remember([told(why=before)])
    printer.show_changes([told(why=after)])
    assert bool(capsys.readouterr().out) is printed


def test_a_job_that_stays_stuck_is_printed_once(capsys: pytest.CaptureFixture[str]) -> None:
    printer = output.ListPrinter(Namespace(output="name", sort_by=None, no_headers=False), queue.LISTING)
    printer.remember([told(secondsStuck=600)])
    printer.show_changes([told(secondsStuck=610)])
    assert capsys.readouterr().out == ""


def test_a_row_shows_progress_and_below_it_what_comes() -> None:
    now = time.time()
    job = {
        "namespace": "a", "name": "frames", "queue": "", "place": None, "phase": "resizing", "width": 4, "min": 1,
        "max": 8, "progress": {"done": 12, "total": 30}, "waitsFor": "pods that leave or come", "since": now - 60,
        "nextChange": {"what": "has 2 pods", "until": now + 31}, "why": "goes from 4 to 2 pods for job a/b",
    }  # fmt: skip
    header, row, waits, change = queue.as_table([job]).splitlines()
    assert header.split() == ["NAME", "QUEUE", "PLACE", "PHASE", "WIDTH", "MIN", "MAX", "PROGRESS", "SINCE"]
    assert row.split() == ["frames", "<none>", "<none>", "resizing", "4", "1", "8", "12/30", "1m"]
    assert (waits, change) == ("    goes from 4 to 2 pods for job a/b", "    next: has 2 pods within 30s")
    job["nextChange"] = {"what": "has 2 pods", "until": now - 1}
    assert queue.as_table([job]).endswith("\n    next: has 2 pods")
    assert max(map(len, queue.as_table([job]).splitlines())) <= 80


@pytest.mark.parametrize(
    ("changes", "below"),
    [
        ({"phase": "running", "why": "runs with 4 pods"}, []),
        ({"phase": "running", "why": "runs with 4 pods; it does not grow"}, ["runs with 4 pods; it does not grow"]),
        ({"phase": "waiting", "why": "waits for room", "waitsFor": "room for 2 pods"}, ["waits for room"]),
        ({"phase": "refused", "why": "ask\n\x1b[2J", "waitsFor": "a correction"}, ["ask\ufffd\ufffd[2J"]),
        ({"phase": "resizing", "why": "", "waitsFor": "pods that leave"}, ["waits for pods that leave"]),
        ({"phase": "stopping", "why": ""}, []),
    ],
)  # fmt: skip
def test_below_a_row_is_why_the_job_is_where_it_is(changes: dict[str, object], below: list[str]) -> None:
    _, _, *shown = queue.as_table([told(nextChange=None, **changes)]).splitlines()
    assert [line.strip() for line in shown] == below
