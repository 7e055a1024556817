"""The production build where a container has it: /etc/ld.so.preload, a config that nobody can name otherwise."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.requirement import require
from tests.runtime.conftest import GPU, PRELUDE, Slice
from tests.runtime.test_memory import REFUSED, TRY
from vgpu_runtime import paths
from vgpu_runtime.rocm import UNITS_VARIABLE

SAID = "vgpu: 1025 MiB refused: the slice has 1024 MiB, 0 in use\n"
# Private /etc and /run; then the program, as an ordinary member of the container.
ENTER = """
set -e
mount -t tmpfs tmpfs /etc
mount -t tmpfs tmpfs /run
mkdir -p /etc/vgpu /run/vgpu
touch {config} && mount --bind "$FOLDER/vgpu.conf" {config}
touch /run/vgpu/usage && mount --bind "$FOLDER/usage" /run/vgpu/usage
cp "$LIBRARY" "$STUB" /etc
printf '%s\\n' /etc/libvgpu.so /etc/libstubkfd.so > /etc/ld.so.preload
exec "$PYTHON" -c "$PROGRAM"
"""


def user_namespaces() -> bool:
    return (
        shutil.which("unshare") is not None
        and subprocess.run(["unshare", "-Urm", "true"], capture_output=True, check=False).returncode == 0
    )


@pytest.fixture
def production(container: Slice, native: Path) -> Slice:
    require(user_namespaces(), "needs user namespaces: sysctl kernel.unprivileged_userns_clone=1")
    require(Path("/var/run").resolve() == Path("/run"), "needs /var/run to be /run")
    container.configure()
    container.library = native / "libvgpu.so"
    return container


def inside(production: Slice, script: str) -> "subprocess.CompletedProcess[str]":
    enter = ENTER.format(config=paths.CONTAINER_CONFIG)
    environment = os.environ | {
        "FOLDER": str(production.folder),
        "LIBRARY": str(production.library),
        "PYTHON": sys.executable,
        "STUB": str(production.stub),
        "PYTHONPATH": str(Path(__file__).parents[2]),
        "PROGRAM": PRELUDE + TRY + script,
        UNITS_VARIABLE: "0x7fff",  # as the runtime sets it; without it the config is read before main
    }
    command = ["unshare", "-Urm", "bash", "-c", enter]
    return subprocess.run(command, env=environment, text=True, capture_output=True, timeout=60, check=False)


def test_every_program_is_held_to_the_slice(production: Slice) -> None:
    done = inside(
        production,
        f"print(attempt(1025 * MIB), attempt(1000 * MIB) >> 32 == {GPU}, kfd.available(GPU) // MIB)",
    )
    assert (done.stdout, done.stderr) == (f"{REFUSED} True 24\n", SAID)


def test_environment_changes_nothing(production: Slice) -> None:
    environment = "os.environ.update(LD_PRELOAD='', VGPU_TEST_FOLDER='/tmp', VGPU_CONFIG='/dev/null')\n"
    program = "from tests.runtime import kfd; kfd.alloc(13261, 1025 << 20)"
    done = inside(
        production,
        f"import subprocess, sys\n{environment}"
        f"print(subprocess.run([sys.executable, '-c', {program!r}], stderr=subprocess.DEVNULL).returncode)",
    )
    assert (done.stdout, done.stderr) == ("1\n", "")


def test_malformed_config_says_so_once_per_process_that_uses_the_card(production: Slice) -> None:
    (production.folder / "vgpu.conf").write_text("mem=4\n")
    done = inside(production, "print(attempt(MIB), attempt(MIB))")
    assert done.stdout == f"{REFUSED} {REFUSED}\n"
    assert len(done.stderr.splitlines()) == 1, "one line, though the shell and its tools were preloaded too"


def test_a_config_whose_folder_was_renamed_refuses_the_card(production: Slice) -> None:
    done = inside(production, "os.rename('/etc/vgpu', '/etc/away')\nprint(attempt(MIB))")
    assert done.stdout == f"{REFUSED}\n"
    assert "the card is refused" in done.stderr


def test_a_program_with_a_cleared_environment_has_read_its_config_before(production: Slice) -> None:
    program = (
        PRELUDE + TRY + "os.rename('/etc/vgpu', '/etc/away')\n"
        f"print(attempt(1025 * MIB), attempt(MIB) > 0, os.environ['{UNITS_VARIABLE}'])"
    )
    done = inside(
        production,
        f"import sys; os.execve(sys.executable, ['python', '-c', {program!r}],"
        " {'PYTHONPATH': os.environ['PYTHONPATH']})",
    )
    assert (done.stdout, done.stderr) == (f"{REFUSED} True 0x7fff\n", SAID)


def test_without_any_config_the_library_does_nothing(production: Slice) -> None:
    production_config = (
        f"import subprocess; subprocess.run(['umount', '{paths.CONTAINER_CONFIG}'], check=True)\n"
    )
    done = inside(
        production,
        f"{production_config}os.remove('{paths.CONTAINER_CONFIG}')\nprint(attempt(1025 * MIB) >> 32 == {GPU})",
    )
    assert (done.stdout, done.stderr) == ("True\n", "")
