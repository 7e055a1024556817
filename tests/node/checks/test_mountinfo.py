"""What covers what, from mountinfo as runc leaves it."""

import pytest

from device_plugin.node.checks.mountinfo import origin, parse, problem

STATE = "/var/lib/vgpu/slices/uid-1/main"
CONFIG, LIBRARY, REGION = "/etc/vgpu/vgpu.conf", "/usr/local/vgpu/libvgpu.so", "/var/run/vgpu/usage"
# The image has a symlink /var/run -> /run.
CONTAINER = f"""\
900 800 0:91 / / rw,relatime - overlay overlay rw
901 900 0:95 / /proc rw,nosuid - proc proc rw
902 900 0:96 / /dev rw,nosuid - tmpfs tmpfs rw
903 900 0:21 / /sys ro - sysfs sysfs ro
904 900 8:1 /var/lib/kubelet/pods/uid-1/etc-hosts /etc/hosts rw - ext4 /dev/sda1 rw
905 900 8:1 {STATE}/vgpu.conf /etc/vgpu/vgpu.conf ro,relatime - ext4 /dev/sda1 rw
906 900 8:1 {STATE}/libvgpu.so /usr/local/vgpu/libvgpu.so ro,relatime - ext4 /dev/sda1 rw
907 900 8:1 {STATE}/region/usage /run/vgpu/usage rw - ext4 /dev/sda1 rw
"""
AGENT = """\
700 600 0:80 / / ro - overlay overlay rw
701 700 8:1 /var/lib/vgpu /var/lib/vgpu rw - ext4 /dev/sda1 rw
"""
FILES = [
    (f"{STATE}/vgpu.conf", CONFIG),
    (f"{STATE}/libvgpu.so", LIBRARY),
    (f"{STATE}/region/usage", REGION),
]


def found(extra: str = "", text: str = CONTAINER) -> str:
    own = parse(AGENT)
    wanted = [(at, path) for source, path in FILES if (at := origin(own, source)) is not None]
    assert len(wanted) == len(FILES)
    return problem(parse(text + extra), wanted)


def over(point: str, parent: int = 900, number: int = 950) -> str:
    """A volume of the tenant's, mounted last."""
    return f"{number} {parent} 0:99 / {point} rw - tmpfs tmpfs rw\n"


def test_what_is_mounted_as_we_said_is_sound() -> None:
    assert found() == ""
    assert found(over("/usr/local/vgpu-data")) == ""
    assert found(over("/proc/acpi", 901)) == ""
    assert found(text=CONTAINER.replace(f"{STATE}/vgpu.conf ", f"{STATE}/vgpu.conf//deleted ")) == ""


@pytest.mark.parametrize(
    ("point", "parent", "covered"),
    [
        ("/usr/local/vgpu", 900, LIBRARY),
        ("/usr/local/vgpu/libvgpu.so", 906, LIBRARY),
        ("/usr", 900, LIBRARY),
        ("/etc", 900, CONFIG),
        ("/run", 900, REGION),
        ("/var/run", 900, REGION),
        ("/", 900, CONFIG),
    ],
)
def test_a_later_mount_at_or_above_a_file_covers_it(point: str, parent: int, covered: str) -> None:
    assert found(over(point, parent)) == f"{covered} is covered by a mount at {point!r}"


def test_a_mount_that_was_made_before_and_put_in_place_later_covers_too() -> None:
    """Linux ≥ 6.8 lists mounts by the time at which they were made."""
    first, rest = CONTAINER.split("\n", 1)
    text = f"{first}\n{over('/usr/local/vgpu')}{rest}"
    assert found(text=text) == f"{LIBRARY} is covered by a mount at '/usr/local/vgpu'"


def test_a_volume_below_which_our_files_are_mounted_covers_nothing() -> None:
    first, rest = CONTAINER.split("\n", 1)
    text = f"{first}\n{over('/usr')}{rest}".replace("906 900", "906 950")
    assert found(text=text) == ""


def test_a_file_that_is_not_mounted_is_named() -> None:
    lines = [line for line in CONTAINER.splitlines(keepends=True) if CONFIG not in line]
    assert found(text="".join(lines)) == f"{CONFIG} is not mounted"


def test_a_file_of_the_same_name_elsewhere_is_not_ours() -> None:
    text = CONTAINER.replace(f"8:1 {STATE}/vgpu.conf", "0:99 /vgpu.conf")
    assert found(text=text) == f"{CONFIG} is not mounted"


@pytest.mark.parametrize(
    "character", ["\r", "\x0b", "\x0c", "\x1c", "\x1d", "\x1e", "\x85", "\u2028", "\u2029"]
)
def test_a_character_that_ends_lines_elsewhere_hides_no_cover(character: str) -> None:
    """A tenant's subPath is part of its mount's root, and the kernel escapes only space, tab, newline and backslash."""
    cover = f"950 900 0:99 /a{character}b /usr/local/vgpu rw - tmpfs tmpfs rw\n"
    assert found(cover) == f"{LIBRARY} is covered by a mount at '/usr/local/vgpu'"


def test_origins_follow_filesystems_and_names_of_any_kind() -> None:
    mounts = parse("1 0 0:80 / / rw - a b c\n2 1 8:1 /lib\\040x/vgpu /var/lib/vg\\134pu rw - ext4 a b\n")
    assert origin(mounts, "/var/lib/vg\\pu/slices/a") == ("8:1", "/lib x/vgpu/slices/a")
    assert origin(mounts, "/etc/a") == ("0:80", "/etc/a")
    assert origin([], "/etc/a") is None


@pytest.mark.parametrize(
    "text", ["", "\n", "a b", "1 2 3 4 5\n", CONTAINER[:500], "1 1 0:1 / / rw - x y z\n" * 3]
)
def test_any_text_ends(text: str) -> None:
    assert found(text=text)
