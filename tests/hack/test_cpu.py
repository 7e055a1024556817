"""CPU seconds by program: what a process spends, and what those that end have spent, count once."""

import os
import subprocess
import sys

import pytest

from hack.measure import burst
from hack.testbed import cpu
from hack.testbed.cpu import Process

SHIM, INIT = (7, "100"), (1, "1")
BURNS = "import time\nwhile time.process_time() < 0.3: pass"


def test_only_what_was_spent_between_the_two_looks_counts() -> None:
    before = {INIT: Process("init", 0, 5.0), SHIM: Process("shim", 1, 2.0)}
    after = {
        INIT: Process("init", 0, 5.5),
        SHIM: Process("shim", 1, 3.0),
        (9, "200"): Process("shim", 1, 0.25),
    }
    assert cpu.spent(before, after) == {"init": 0.5, "shim": 1.25}


def test_one_that_has_ended_counts_for_its_parent_since_the_first_look_alone() -> None:
    before = {INIT: Process("init", 0, 5.0), SHIM: Process("shim", 1, 2.0)}
    after = {INIT: Process("init", 0, 7.75)}  # with the shim's whole life, 2.75
    assert cpu.spent(before, after)["init"] == 0.75


def test_children_count_for_whoever_waited_for_them() -> None:
    before = cpu.look()
    subprocess.run([sys.executable, "-c", BURNS], check=True)
    after = cpu.look()
    (key,) = (key for key in after if key[0] == os.getpid())
    assert after[key].seconds - before[key].seconds >= 0.25
    assert cpu.spent(before, after)[cpu.MACHINE] >= 0.25


@pytest.mark.parametrize(
    ("words", "program"),
    [
        (["/usr/local/bin/kube-scheduler", "--config=/etc/vgpu/scheduler.yaml"], cpu.OURS),
        (["kube-scheduler", "--kubeconfig=/etc/kube-scheduler.kubeconfig"], "kube-scheduler"),
        (["/usr/bin/python3.11", "/usr/bin/vgpu", "node", ""], "vgpu node"),
        (["", ""], "kthreadd"),
    ],
)
def test_a_program_is_named_after_what_it_runs(words: list[str], program: str) -> None:
    assert cpu._program("kthreadd", words) == program


def test_a_gate_that_is_neither_true_nor_false_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["hack/burst", "--kubelet-gate", "ResourceHealthStatus"])
    with pytest.raises(SystemExit):
        burst.main()
    assert "write NAME=true or NAME=false" in capsys.readouterr().err
