"""Idle slices as people see them: by owner, the worst first, and what is not known."""

import json

import pytest

from device_plugin.wiring.commands import main
from tests.cli.figures import BUSY, MIB, Figures
from tests.cli.fleet import Fleet

HOUR = 3600.0
GIB = 1024 * MIB
# It holds 12 GiB and has never used more than 0.5.
SMALL = {**BUSY, "memory_peak_bytes": 0.5 * GIB, "observed_seconds": 2 * HOUR, "idle_seconds": 0.0}
IDLE = {
    "memory_used_bytes": 3 * GIB,
    "compute_ratio": 0.0,
    "idle_seconds": 5 * HOUR,
    "observed_seconds": 5 * HOUR,
}


@pytest.fixture
def wasteful(fleet: Fleet, prometheus: Figures) -> Fleet:
    """Pod `big` uses little, `note` is idle, `busy` is neither, and of `dark` it is not known whether it computes."""
    fleet.node("n1", 4)
    fleet.pod("big", 12, "n1-0", labels={"app": "x"})
    fleet.pod("note", 4, "n1-1", owner="")
    fleet.pod("busy", 4, "n1-2", owner="Job")
    fleet.pod("dark", 4, "n1-3", owner="Job")
    busy = {**BUSY, "memory_peak_bytes": 4000 * MIB, "observed_seconds": 9 * HOUR, "idle_seconds": 0.0}
    prometheus.pods = {
        "big": ("n1-0", SMALL), "note": ("n1-1", IDLE), "busy": ("n1-2", busy), "dark": ("n1-3", BUSY),
    }  # fmt: skip
    return fleet


def test_the_worst_owner_is_first_with_what_its_pods_hold_and_use(
    wasteful: Fleet, prometheus: Figures, capsys: pytest.CaptureFixture[str]
) -> None:
    config = ("--kubeconfig", str(wasteful.kubeconfig), "--prometheus", prometheus.url)
    assert main(["waste", *config]) == 0
    said = capsys.readouterr()
    header, big, its, note, its_too = said.out.splitlines()
    assert header.split() == ["OWNER", "SLICES", "HELD", "USED", "IDLE", "WASTED"]
    assert big.split() == ["ReplicaSet/owner", "1", "12", "GiB", "0.5", "GiB", "<none>", "23.0", "GiB", "h"]
    assert its == "    big main on n1: holds 12 GiB, 45 core groups, uses 0.5 GiB, at most 0.5 GiB in 2h"
    assert note.split() == ["Pod/note", "1", "4", "GiB", "3", "GiB", "5h", "20.0", "GiB", "h"]
    assert its_too == "    note main on n1: holds 4 GiB, 15 core groups, uses 3 GiB, idle for 5h"
    assert said.err == (
        "the driver does not count busy compute units for 1 slice: only little memory use is found there\n"
    )


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (("--idle", "3h"), ["waste/default/Pod/note"]),
        (("--idle", "6h"), []),
        (("-l", "app=x"), ["waste/default/ReplicaSet/owner"]),
        (("--sort-by=-idle",), ["waste/default/Pod/note", "waste/default/ReplicaSet/owner"]),
        (("-A", "--by", "namespace"), ["waste/default"]),
    ],
)
def test_slices_are_chosen_and_grouped(
    wasteful: Fleet, prometheus: Figures, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], found: list[str]
) -> None:  # fmt: skip
    config = ("--kubeconfig", str(wasteful.kubeconfig), "--prometheus", prometheus.url)
    assert main(["waste", *words, "-o", "name", *config]) == 0
    assert capsys.readouterr().out.split() == found


def test_programs_get_each_slice_and_the_sums(
    wasteful: Fleet, prometheus: Figures, capsys: pytest.CaptureFixture[str]
) -> None:
    config = ("--kubeconfig", str(wasteful.kubeconfig), "--prometheus", prometheus.url)
    assert main(["waste", "-A", "--by", "namespace", "-o", "json", *config]) == 0
    (row,) = json.loads(capsys.readouterr().out)["waste"]
    assert (row["namespace"], row["owner"], row["heldBytes"], row["idleSeconds"]) == (
        "default", None, 16 * 1023 * MIB, 5 * HOUR,
    )  # fmt: skip
    assert [(each["pod"], each["idle"], each["peakBytes"]) for each in row["slices"]] == [
        ("big", False, 0.5 * GIB), ("note", True, None),
    ]  # fmt: skip


@pytest.mark.usefixtures("rights_of_one_namespace")
def test_with_the_rights_of_one_namespace_its_waste_alone_is_shown(
    wasteful: Fleet, prometheus: Figures, capsys: pytest.CaptureFixture[str]
) -> None:
    """The Prometheus has the figures of all namespaces; the pods that the person may list decide what is shown."""
    config = ("--kubeconfig", str(wasteful.kubeconfig), "--prometheus", prometheus.url)
    # Its slice is in the figures, as those of pods of other namespaces are.
    wasteful.remove("note")
    assert main(["waste", "-A", "-o", "name", *config]) == 0
    printed = capsys.readouterr()
    assert printed.out.split() == ["waste/default/ReplicaSet/owner"]
    assert printed.err.startswith(
        "you may not list pods of all namespaces: only those of namespace default are known."
    )


def test_an_idle_pod_with_a_limit_shows_when_it_is_asked_back(
    fleet: Fleet, prometheus: Figures, capsys: pytest.CaptureFixture[str]
) -> None:
    limits = {"announced": "5h12m", "later": "9h", "overdue": "4h", "free": ""}
    fleet.node("n1", len(limits))
    prometheus.pods = {}
    for number, (name, limit) in enumerate(limits.items()):
        fleet.pod(name, 4, f"n1-{number}", owner="", idle_limit=limit)
        prometheus.pods[name] = (f"n1-{number}", IDLE)
    config = ("--kubeconfig", str(fleet.kubeconfig), "--prometheus", prometheus.url)
    assert main(["waste", *config]) == 0
    lines = [
        line.split(" uses 3 GiB, ")[1] for line in capsys.readouterr().out.splitlines() if " main on " in line
    ]
    assert sorted(lines) == [
        "idle for 5h", "idle for 5h, asked back in 12m", "idle for 5h, asked back in 4h",
        "idle for 5h, asked back now",
    ]  # fmt: skip
    assert main(["pods", "-o", "json", *config]) == 0
    left = {each["name"]: each["askedBackSeconds"] for each in json.loads(capsys.readouterr().out)["pods"]}
    assert left == {"announced": 720, "later": 4 * HOUR, "overdue": 0, "free": None}
    assert main(["pods", *config]) == 0
    states = {line.split()[0]: line.split("  ")[-1].strip() for line in capsys.readouterr().out.splitlines()}
    assert states["announced"] == "Pending, asked back in 12m"
    assert states["overdue"] == "Pending, asked back now"
    assert {states[name] for name in ("later", "free")} == {"Pending"}


def test_without_waste_or_without_figures_it_says_so(
    fleet: Fleet, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["waste", "--kubeconfig", str(fleet.kubeconfig)]) == 0
    nothing = (
        "no slice is known to have been idle for 30m, or to have used less than 50% of its memory for as long;"
        " --idle TIME asks for another time\n"
    )
    assert capsys.readouterr() == ("", nothing)
    fleet.node("n1")
    fleet.pod("a", 4, "n1-0")
    assert main(["waste", "--kubeconfig", str(fleet.kubeconfig)]) == 0
    unknown = "use is not known: no node agent runs in namespace vgpu-system\n"
    assert capsys.readouterr() == ("", nothing + unknown)


@pytest.mark.parametrize("text", ["", "0m", "soon", "1.5h", "-1h", "400d", "9" * 400])
def test_a_time_that_is_none_is_refused(capsys: pytest.CaptureFixture[str], text: str) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["waste", f"--idle={text}"])
    assert "write at most 366 days, such as 30m, 1h30m or 7d" in capsys.readouterr().err
