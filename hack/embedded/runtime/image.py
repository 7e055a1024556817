"""The root file system of every container: a separate root with the host's programs, read-only.

The result is a list of the launcher's operations (see launcher.c). The entries of `/usr` and `/usr/local` are mounted
one by one, so that other files can be mounted next to them, such as `/usr/local/vgpu/libvgpu.so`. The host's
/etc/ld.so.preload is never included.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

_ROOT_FOLDERS = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")
_EXPANDED = ("/usr", "/usr/local")
_ETC = ("alternatives", "group", "host.conf", "hosts", "ld.so.cache", "ld.so.conf", "ld.so.conf.d", "localtime",
        "nsswitch.conf", "passwd", "resolv.conf", "ssl")  # fmt: skip
_DEVICES = ("full", "null", "random", "tty", "urandom", "zero")


def image_operations(extra: Sequence[tuple[Path, str]] = ()) -> list[str]:
    """The operations that fill an empty root; `extra` are (host path, container path), mounted read-only."""
    operations = ["dir", "/etc", "dir", "/root", "dir", "/run", "dir", "/var", "link", "../run", "/var/run"]
    operations += ["tmpfs", "/tmp"]  # noqa: S108 - the container's
    for name in _ROOT_FOLDERS:
        operations += _copy(Path("/", name))
    for folder in _EXPANDED:
        operations += ["dir", folder]
        for entry in sorted(Path(folder).iterdir()):
            if str(entry) not in _EXPANDED:
                operations += _copy(entry)
    for name in _ETC:
        if Path("/etc", name).exists():
            operations += _read_only(f"/etc/{name}")
    operations += ["proc", "/proc", *_read_only("/sys")]
    if Path("/sys/fs/cgroup").is_dir():
        operations += ["tmpfs", "/sys/fs/cgroup"]
    operations += _devices()
    for source, target in extra:
        operations += ["bind", str(source), target, "ro,nosuid"]
    return operations


def _devices() -> Iterator[str]:
    for name in _DEVICES:
        if Path("/dev", name).exists():
            yield from ("bind", f"/dev/{name}", f"/dev/{name}", "rw")
    yield from ("tmpfs", "/dev/shm")  # noqa: S108 - the container's
    for target, name in (
        ("../proc/self/fd", "fd"),
        ("../proc/self/fd/1", "stdout"),
        ("../proc/self/fd/2", "stderr"),
    ):
        yield from ("link", target, f"/dev/{name}")


def _copy(path: Path) -> list[str]:
    if path.is_symlink():
        return ["link", str(path.readlink()), str(path)]
    return _read_only(str(path)) if path.exists() else []


def _read_only(path: str) -> list[str]:
    return ["bind", path, path, "ro,nosuid"]
