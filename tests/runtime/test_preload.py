"""The production build where a container has it: /etc/ld.so.preload, a config that nobody can name otherwise."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.requirement import require
from tests.runtime.conftest import GPU, PRELUDE, STRICT, Slice
from tests.runtime.test_memory import REFUSED, TRY
from vgpu_runtime import paths
from vgpu_runtime.paths import SOURCES
from vgpu_runtime.rocm import UNITS_VARIABLE

SAID = "vgpu: 1025 MiB refused: the slice has 1024 MiB, 0 in use (hygon.com/dcu-mem: 1)\n"
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
        UNITS_VARIABLE: "0x7fff",  # as the runtime sets it
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
    program = PRELUDE + TRY + "print(attempt(MIB))"
    done = inside(
        production,
        "import subprocess, sys; os.rename('/etc/vgpu', '/etc/away')\n"
        f"subprocess.run([sys.executable, '-c', {program!r}], check=True)",
    )
    assert done.stdout == f"{REFUSED}\n"
    assert "the card is refused" in done.stderr


def test_a_program_has_read_its_config_before_main(production: Slice) -> None:
    """In C, because Python loads libraries at its start, which reads it too."""
    source, program = production.folder / "late.c", production.folder / "late"
    source.write_text(
        "#include <errno.h>\n#include <stdio.h>\n#include <string.h>\n#include <unistd.h>\n"
        '#include "vgpu_kfd.h"\n'
        "int main(void) {\n"
        f"    struct kfd_alloc_memory memory = {{.size = 1025ul << 20, .gpu_id = {GPU}, .flags = KFD_MEM_VRAM}};\n"
        '    if (rename("/etc/vgpu", "/etc/away")) return 1;\n'
        "    ioctl(-1, _IOWR(KFD_IOC_TYPE, KFD_NR_ALLOC_MEMORY, struct kfd_alloc_memory), &memory);\n"
        '    printf("%s\\n", strerror(errno));\n'
        "    return 0;\n}\n"
    )
    subprocess.run(["cc", *STRICT, f"-I{SOURCES / 'include'}", source, "-o", program], check=True)
    done = inside(production, f"import subprocess; subprocess.run([{str(program)!r}], check=True)")
    assert (done.stdout, done.stderr) == (f"{REFUSED}\n", SAID)


def test_a_program_that_changes_its_root_folder_before_it_touches_the_card(production: Slice) -> None:
    jail = "os.mkdir('/run/jail'); os.chroot('/run/jail'); os.chdir('/')\n"
    done = inside(production, f"{jail}print(attempt(MIB), attempt(1025 * MIB))")
    assert done.stdout == f"{REFUSED} {REFUSED}\n"
    assert done.stderr.startswith("vgpu: card memory is refused: the usage region ")


def test_a_program_that_changes_its_root_folder_later(production: Slice) -> None:
    jail = "kfd.alloc(GPU, 600 * MIB); os.mkdir('/run/jail'); os.chroot('/run/jail'); os.chdir('/')\n"
    done = inside(production, f"{jail}print(attempt(500 * MIB), attempt(400 * MIB) > 0)")
    said = "vgpu: 500 MiB refused: the slice has 1024 MiB, 600 in use (hygon.com/dcu-mem: 1)\n"
    assert (done.stdout, done.stderr) == (f"{REFUSED} True\n", said)


def test_a_program_with_a_cleared_environment_knows_its_units(production: Slice) -> None:
    program = f"import os; print(os.environ['{UNITS_VARIABLE}'])"
    done = inside(
        production,
        f"import sys; os.execve(sys.executable, ['python', '-S', '-c', {program!r}], {{}})",
    )
    assert (done.stdout, done.stderr) == ("0x7fff\n", "")


def test_without_any_config_the_library_does_nothing(production: Slice) -> None:
    program = PRELUDE + TRY + "print(attempt(1025 * MIB) >> 32 == GPU)"
    done = inside(
        production,
        "import subprocess, sys\n"
        f"subprocess.run(['umount', '{paths.CONTAINER_CONFIG}'], check=True); os.remove('{paths.CONTAINER_CONFIG}')\n"
        f"subprocess.run([sys.executable, '-c', {program!r}], check=True)",
    )
    assert (done.stdout, done.stderr) == ("True\n", "")
