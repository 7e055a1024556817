"""The Job that `vgpu run` writes: what the engine reads of it, and what is said of wrong options."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from device_plugin.adapters.kube.jobs import read_job
from device_plugin.core.contract import annotations as keys
from device_plugin.core.jobs.job import JobSpec
from device_plugin.core.jobs.spec import Split
from device_plugin.wiring.commands import main
from tests.builders.cards import FAMILY
from tests.builders.written_jobs import read

Printed = Callable[..., list[dict[str, Any]]]
TORCHRUN = ("--", "torchrun", "train.py")
SIZED = ("--samples=1000", "--duration=8h", "--model=m")


@pytest.fixture
def printed(capsys: pytest.CaptureFixture[str]) -> Printed:
    """The objects that a command prints."""

    def run(*words: str) -> list[dict[str, Any]]:
        assert main(["run", "train", "--image=I", "--dry-run", *words]) == 0
        return list(yaml.safe_load_all(capsys.readouterr().out))

    return run


def container(job: dict[str, Any]) -> dict[str, Any]:
    (found,) = job["spec"]["template"]["spec"]["containers"]
    return dict(found)


def spec_of(job: dict[str, Any]) -> JobSpec:
    return read(read_job(json.dumps(job).encode()))


def environment(job: dict[str, Any]) -> dict[str, str]:
    return {each["name"]: each.get("value", "") for each in container(job).get("env", ())}


def test_a_slice_in_percent(printed: Printed) -> None:
    (job,) = printed("--percent=25", "--", "x")
    assert container(job)["resources"] == {"limits": {f"{FAMILY}-percent": "25"}}
    assert spec_of(job) is not None


def test_a_program_on_a_slice_is_one_pod_that_is_not_tried_again(printed: Printed) -> None:
    (job,) = printed("--mem=4", "--cores=15", "--", "python", "-c", "print(1)")
    assert container(job)["resources"] == {"limits": {f"{FAMILY}-mem": "4", f"{FAMILY}-cores": "15"}}
    assert container(job)["command"] == ["python", "-c", "print(1)"]
    assert (job["spec"]["backoffLimit"], job["spec"]["suspend"]) == (0, True)
    found = spec_of(job)
    assert (found.queue, found.asked, found.least, found.most) == ("default", 1, 1, 1)


def test_torchrun_gets_its_replicas_and_a_service_on_index_0(printed: Printed) -> None:
    service, names, job = printed("--cards=4", "--min=2", "--max=8", *TORCHRUN)
    found = spec_of(job)
    assert (found.asked, found.least, found.most, found.group_size) == (4, 2, 8, 2)
    assert service["spec"]["selector"] == {
        "batch.kubernetes.io/job-name": "train", "batch.kubernetes.io/job-completion-index": "0",
    }  # fmt: skip
    assert service["spec"]["publishNotReadyAddresses"] is True
    assert (names["metadata"]["name"], names["spec"]["clusterIP"]) == ("train-pods", "None")
    assert names["spec"]["selector"] == {"batch.kubernetes.io/job-name": "train"}
    assert job["spec"]["template"]["spec"]["subdomain"] == "train-pods"
    told = environment(job)
    assert told["PET_NNODES"] == "2:8"
    assert (told["PET_RDZV_BACKEND"], told["PET_RDZV_CONF"]) == ("c10d", "last_call_timeout=3")
    assert int(told["PET_MAX_RESTARTS"]) >= 100
    assert container(job)["args"] == ["torchrun", "train.py"]
    assert job["spec"]["template"]["spec"]["shareProcessNamespace"] is True
    # Eight agents fail when index 0 is lost.
    assert job["spec"]["backoffLimit"] >= 8 * 10
    assert [rule["action"] for rule in job["spec"]["podFailurePolicy"]["rules"]] == ["Ignore", "Ignore"]


@pytest.mark.parametrize(
    ("words", "failures"),
    [
        (("--cards=4", "--", "x"), 0),
        (("--cards=4", "--min=2", "--", "x"), 6),
        (("--cards=4", "--min=2", "--retries=0", "--", "x"), 0),
        (("--cards=4", *TORCHRUN), 100),
        (("--cards=4", "--max=64", *TORCHRUN), 640),
        (("--cards=4", "--retries=3", *TORCHRUN), 3),
    ],
)
def test_how_many_failed_pods_a_job_survives(printed: Printed, words: tuple[str, ...], failures: int) -> None:
    *_, job = printed(*words)
    assert job["spec"]["backoffLimit"] == failures


@pytest.mark.parametrize(
    ("words", "service"),
    [
        (("--cards=2", "--", "python3", "-m", "torch.distributed.run", "a.py"), True),
        (("--cards=2", "--", "/opt/bin/torchrun", "a.py"), True),
        (("--cards=1", "--max=2", *TORCHRUN), True),
        (("--cards=1", *TORCHRUN), False),
        (("--cards=2", "--", "python3", "torchrun"), False),
    ],
)
def test_agents_meet_only_where_there_may_be_several(
    printed: Printed, words: tuple[str, ...], service: bool
) -> None:
    assert [each["kind"] for each in printed(*words)] == ["Service"] * 2 * service + ["Job"]


def test_several_cards_of_a_replica_have_a_rank_each(printed: Printed) -> None:
    *_, job = printed("--cards=8", "--replicas=2", *TORCHRUN)
    assert container(job)["resources"] == {"limits": {FAMILY: "4"}}
    assert environment(job)["PET_NPROC_PER_NODE"] == "4"
    assert spec_of(job).asked == 2


def test_scripts_are_parts_that_fail_each_for_itself(printed: Printed, tmp_path: Path) -> None:
    for name in ("a.sh", "b.sh"):
        (tmp_path / name).write_text(f"echo {name}\n")
    files = f"--split={tmp_path}/a.sh,{tmp_path}/b.sh"
    scripts, job = printed("--mem=4", files)
    assert scripts["data"] == {"0": "echo a.sh\n", "1": "echo b.sh\n"}
    found = spec_of(job)
    assert (found.split, found.parts) == (Split.ORDERED, 2)
    assert job["spec"]["backoffLimitPerIndex"] == 0
    assert container(job)["command"][2] == 'exec "$@" "/parts/$JOB_COMPLETION_INDEX"'
    _, job = printed("--mem=4", files, "--split-ratio=2")
    assert spec_of(job).split_ratio == 2
    _, job = printed("--cards=2", files, "--", "bash", "-x")
    assert container(job)["args"] == ["bash", "-x"]
    assert container(job)["resources"] == {"limits": {FAMILY: "2"}}


def test_a_job_that_is_to_be_sized_has_its_work_written_on_it(printed: Printed) -> None:
    words = (
        "--samples=1281167",
        "--epochs=90",
        "--duration=8h",
        "--duration-at-most=16h",
        "--model=resnet50",
    )
    *_, job = printed(*words, "--card-model=Z100", *TORCHRUN)
    goal = spec_of(job).goal
    assert goal
    assert (goal.samples, goal.epochs, goal.seconds, goal.most_seconds) == (1281167, 90, 8 * 3600, 16 * 3600)
    assert environment(job)["PET_NNODES"] == "1:1024"
    assert job["spec"]["template"]["metadata"]["annotations"] == {keys.CARD_MODEL: "Z100"}


def test_other_options_are_written_where_they_belong(printed: Printed) -> None:
    words = ("--priority=high", "--grace=90", "--retries=3", "--queue=night", "--checkpoint-seconds=120")
    (job,) = printed(
        "--cards=1",
        *words,
        "-n",
        "team-a",
        "--volume=data:/data",
        "--env=A=b=c",
        "--expected-duration=6h",
        "--",
        "x",
    )
    assert job["metadata"]["namespace"] == "team-a"
    assert job["metadata"]["labels"] == {keys.QUEUE: "night"}
    assert (spec_of(job).checkpoint_seconds, spec_of(job).expected_seconds) == (120, 6 * 3600)
    assert job["spec"]["backoffLimit"] == 3
    pods = job["spec"]["template"]["spec"]
    assert (pods["priorityClassName"], pods["terminationGracePeriodSeconds"]) == ("high", 90)
    assert pods["volumes"] == [{"name": "volume-0", "persistentVolumeClaim": {"claimName": "data"}}]
    assert container(job)["volumeMounts"] == [{"name": "volume-0", "mountPath": "/data"}]
    assert environment(job) == {"A": "b=c"}


@pytest.mark.parametrize(
    ("words", "expected", "together"),
    [
        (("--cards=4", "--widths=1,2,4,8"), (4, 1, 8, (1, 2, 4, 8)), 0),
        (("--cards=4", "--widths=2,4,8"), (4, 2, 8, (2, 4, 8)), 2),
        (("--cards=4", "--widths=1,2,4,8", "--min=2", "--max=7"), (4, 2, 4, (2, 4)), 2),
        (("--mem=4", "--widths=1,2,4,8"), (8, 1, 8, (1, 2, 4, 8)), 0),
        (("--mem=4", "--widths=1,2,4,8", "--max=5"), (4, 1, 4, (1, 2, 4)), 0),
        (("--widths=2,4", *SIZED), (2, 2, 4, (2, 4)), 0),
    ],
)  # fmt: skip
def test_the_only_widths_of_a_program(
    printed: Printed, words: tuple[str, ...], expected: tuple[Any, ...], together: int
) -> None:
    (job,) = printed(*words, "--", "x")
    found = spec_of(job)
    assert (found.asked, found.least, found.most, found.widths) == expected
    assert found.group_size == together
    assert job["spec"]["parallelism"] == expected[0]


def test_torchrun_gets_the_first_and_the_last_of_its_widths(printed: Printed) -> None:
    *_, job = printed("--cards=4", "--widths=2,4,8", *TORCHRUN)
    assert environment(job)["PET_NNODES"] == "2:8"
    assert job["spec"]["backoffLimit"] >= 8 * 10


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ((), (None, None)),
        (("--resumable",), (True, None)),
        (("--no-resumable", "--min-runtime=1h30m"), (False, 5400)),
    ],
)
def test_a_job_says_when_it_may_be_stopped(
    printed: Printed, words: tuple[str, ...], expected: tuple[bool | None, float | None]
) -> None:
    (job,) = printed("--cards=1", *words, "--", "x")
    assert (spec_of(job).resumable, spec_of(job).min_runtime) == expected


def test_before_kubernetes_1_36_the_scheduler_and_what_confines_are_written(printed: Printed) -> None:
    (job,) = printed("--mem=4", "--scheduler=vgpu-scheduler", "--", "x")
    pods = job["spec"]["template"]["spec"]
    assert pods["schedulerName"] == "vgpu-scheduler"
    assert pods["securityContext"] == {"seccompProfile": {"type": "RuntimeDefault"}}
    assert container(job)["securityContext"] == {"capabilities": {"drop": ["SYS_CHROOT"]}}


@pytest.mark.parametrize(
    ("typed", "written"),
    [("$(date)", "$$(date)"), ("$$", "$$$"), ("$x", "$x"), ("a$", "a$"), ("$$(a)", "$$$$(a)")],
)
def test_a_program_is_written_so_that_kubernetes_replaces_nothing_in_it(
    printed: Printed, typed: str, written: str
) -> None:
    (job,) = printed("--cards=1", f"--env=A={typed}", "--", "sh", "-c", typed)
    assert container(job)["command"][2] == written
    assert environment(job)["A"] == written


def test_json_is_one_object(capsys: pytest.CaptureFixture[str]) -> None:
    for words, kind in ((("--cards=1", "--", "x"), "Job"), (("--cards=2", *TORCHRUN), "List")):
        assert main(["run", "train", "--image=I", "--dry-run", "-o", "json", *words]) == 0
        assert json.loads(capsys.readouterr().out)["kind"] == kind


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("-n train --image I --cards 1 -- x", "no name: write it first, vgpu run NAME; -n is the namespace"),
        ("train --cards 1 -- x", "no image: write --image"),
        ("train --image I --cards 1", "no program: write it last, after --"),
        ("train --image I -- x", "no card: write --cards"),
        ("Train --image I --cards 1 -- x", "name 'Train': write at most 61 small letters, digits and -"),
        (f"{'a' * 60} --image I --cards 1 --max 1024 -- x", "write at most 58 small letters"),
        (f"{'a' * 59} --image I --cards 2 -- torchrun", "write at most 58 small letters"),
        ("1st --image I --cards 1 -- x", "with a letter first"),
        (
            "t --image I --cards 4 --min 5 --max 3 -- x",
            "--min is 5 and --max 3: write a minimum that is not more",
        ),
        ("t --image I --cards 9 --min 2 --max 8 -- x", "9 replicas, where 2 to 8 are allowed"),
        ("t --image I --cards 4 --max 3 -- x", "4 replicas, where 1 to 3 are allowed: change --replicas"),
        (
            "t --image I --cards 3 --widths 1,2,4 -- x",
            "3 replicas, where 1, 2, 4 are allowed: change --replicas",
        ),
        (
            "t --image I --cards 4 --widths 4,2 -- x",
            "--widths is '4,2': write at most 16 whole numbers from 1 to 1024",
        ),
        (
            "t --image I --cards 4 --widths 2,8 --min 4 --max 6 -- x",
            "--widths has no width from --min to --max: write",
        ),
        (
            "t --image I --mem 1 --widths 1,2 --split {0}/large",
            "--widths: leave it out, because as many scripts",
        ),
        ("t --image I --mem 1 --replicas 1025 -- x", "1025 replicas, where 1 to 1024 are allowed"),
        ("t --image I --mem 1 --max 1025 -- x", "write a whole number from 1 to 1024"),
        ("t --image I --cards 3 --replicas 2 -- x", "write --cards as a multiple of 2"),
        ("t --image I --cards 17 --replicas 1 -- x", "a container can hold at most 16"),
        ("t --image I --cards 1 --mem 4 -- x", "write either --cards, or --mem and --cores, or --percent"),
        (
            "t --image I --cards 1 --percent 25 -- x",
            "write either --cards, or --mem and --cores, or --percent",
        ),
        ("t --image I --percent 25 --mem 4 -- x", "write either --percent, or --mem and --cores"),
        (
            "t --image I --cards 1 --min-runtime 25h -- x",
            "--min-runtime is '25h': write a time of at most 24 hours, such as 2h or 90m",
        ),
        (
            "t --image I --mem 1 --resumable --split {0}/large",
            "--resumable: leave it out, because the sub-tasks",
        ),
        ("t --image I --cards 1 --duration 8 -- x", "--duration is '8': write a time of at most 366 days"),
        ("t --image I --samples 8 -- x", "lacks --duration, --model: write --duration, --model too"),
        (
            "t --image I --mem 4 --samples 8 --duration 8h --model m -- x",
            "--samples: write --cards in place of --mem",
        ),
        ("t --image I --cards 1 --samples 8 --split {0}/large", "--samples: leave it out"),
        ("t --image I --mem 1 --split {0}/none", "none' cannot be read: No such file"),
        ("t --image I --mem 1 --split {0}/empty", "empty' is empty: write a script"),
        ("t --image I --mem 1 --split {0}/binary", "binary' is no text"),
        ("t --image I --mem 1 --split {0}/large,{0}/large", "more than 1048576 bytes together"),
        ("t --image I --mem 1 --replicas 2 --split {0}/large", "--replicas: leave it out"),
        ("t --image I --mem 1 --max 2 --split {0}/large", "--min and --max: leave them out"),
        (
            "t --image I --cards 2 -- torchrun --nnodes=2 a",
            "--nnodes=2: leave it out, because vgpu run sets it",
        ),
        ("t --image I --cards 2 -- torchrun --rdzv_endpoint x a", "--rdzv_endpoint: leave it out"),
        ("t --image I --cards 1 --env x -- x", "--env x: write --env NAME=VALUE"),
        ("t --image I --cards 1 --volume a:b -- x", "--volume a:b: write --volume CLAIM:/PATH"),
        ("t --image I --cards 1 --volume a:/d --volume b:/d -- x", "--volume b:/d: a is mounted there"),
        ("t --image I --cards 1 --fetch /a:b -- x", "--fetch /a: write a path on a --volume"),
        ("t --image I --cards 1 --volume v:/a --fetch /a/../b:b -- x", "write a path on a --volume"),
        ("t --image I --cards 1 --volume v:/a --fetch /a:c:d -- x", "write --fetch PATH:LOCAL"),
        ("t --image I --cards 1 -o yaml -- x", "write --dry-run too"),
        ("t --image I --cards 1 --rm --detach -- x", "leave them out, or --detach"),
    ],
)
def test_wrong_options_are_refused_with_what_to_write(
    words: str, says: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "empty").touch()
    (tmp_path / "binary").write_bytes(b"\x7fELF\xff")
    (tmp_path / "large").write_text("#" * (1 << 19) + "\n")
    assert main(["run", *words.format(tmp_path).split()]) == 2
    assert says in capsys.readouterr().err


@pytest.mark.parametrize(
    "option", ["--cards=0", "--min=two", "--widths=1,two", "--widths=", "--mem=-1", "--retries=1.5"]
)
def test_what_is_no_number_is_refused(option: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match=r"^2$"):
        main(["run", "t", "--image=I", option, "--", "x"])
    assert "write a whole number" in capsys.readouterr().err
