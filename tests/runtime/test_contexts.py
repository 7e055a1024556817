"""A process has one context of the driver: the library's books know handles and queues by their numbers alone."""

import errno

import pytest

from tests.runtime.conftest import Slice

CREATE_PROCESS = 0x27
ATTEMPT = """
def attempt(code):
    try:
        kfd.send(code, None)
    except OSError as error:
        return error.errno
    return 0

"""
SAID = (
    "vgpu: a second context of the driver is refused: memory and queues are counted in the first one only\n"
)


@pytest.mark.parametrize("letter", ["K", "X"])
@pytest.mark.parametrize("direction", range(4))
def test_a_second_context_is_refused(container: Slice, letter: str, direction: int) -> None:
    """A line on stderr says so once."""
    container.configure()
    code = f"kfd.request({CREATE_PROCESS}, 0, {ord(letter)}, {direction})"
    done = container.run(f"{ATTEMPT}print(attempt({code}), attempt({code}))")
    assert (done.stdout, done.stderr) == (f"{errno.EPERM} {errno.EPERM}\n", SAID)
    assert container.log == []


def test_it_is_refused_without_a_readable_config_too(container: Slice) -> None:
    (container.folder / "vgpu.conf").write_text("version 99\n")
    code = f"kfd.request({CREATE_PROCESS}, 0, direction=0)"
    assert container.run(f"{ATTEMPT}print(attempt({code}))").stdout == f"{errno.EPERM}\n"
    assert container.log == []


def test_outside_a_slice_it_passes(container: Slice) -> None:
    code = f"kfd.request({CREATE_PROCESS}, 0, direction=0)"
    assert container.output(f"{ATTEMPT}print(attempt({code}))") == ["0"]
    assert container.log == ["call 0x27"]
