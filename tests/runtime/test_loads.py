"""`vgpu-loads`: whether the loaders of programs load the library, as glibc's and musl's own loaders answer."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.requirement import require

MAIN = "int main(void) { return 0; }\n"


def loads(
    native: Path, *programs: str | Path, preload: str | None = None, path: str = ""
) -> list[dict[str, str]]:
    """The answer for each program, with this LD_PRELOAD (by default the library's) and PATH."""
    environment = {
        "LD_PRELOAD": str(native / "libvgpu.so") if preload is None else preload,
        **({"PATH": path} if path else {}),
    }
    command = [native / "vgpu-loads", "/proc/self/fd/1", *programs]
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True, timeout=60)
    return [json.loads(line) for line in done.stdout.splitlines()]


def compiled(folder: Path, *options: str, compiler: str = "cc") -> Path:
    """A program that does nothing."""
    (folder / "main.c").write_text(MAIN)
    subprocess.run([compiler, "-o", folder / "program", folder / "main.c", *options], check=True)
    return folder / "program"


def script(path: Path, *lines: str) -> Path:
    path.write_text("\n".join(lines) + "\n")
    path.chmod(0o755)
    return path


def test_a_program_of_glibc_loads_the_library(native: Path, tmp_path: Path) -> None:
    program = compiled(tmp_path)
    (found,) = loads(native, program)
    assert (found["program"], found["path"], found["state"], found["said"]) == (
        str(program), str(program), "loaded", "",
    )  # fmt: skip
    assert Path(found["loader"]).exists()


@pytest.mark.parametrize(
    ("preload", "said"),
    [("", ""), ("/nowhere/libvgpu.so", "cannot be preloaded"), ("{main}/libvgpu.so", "cannot be preloaded")],
)
def test_a_library_that_cannot_be_loaded_is_not_and_the_loader_says_why(
    native: Path, tmp_path: Path, preload: str, said: str
) -> None:
    program = compiled(tmp_path)
    (tmp_path / "libvgpu.so").write_text(MAIN)
    (found,) = loads(native, program, preload=preload.format(main=tmp_path))
    assert found["state"] == "not loaded"
    assert said in found["said"]
    assert bool(said) == bool(found["said"])


def test_musl_loads_it_only_with_the_variable(native: Path, tmp_path: Path) -> None:
    require(shutil.which("musl-gcc"), "needs musl: apt-get install musl-tools")
    program = compiled(tmp_path, compiler="musl-gcc")
    (loaded,), (bare,) = loads(native, program), loads(native, program, preload="")
    assert "ld-musl-" in Path(loaded["loader"]).name
    assert (loaded["state"], bare["state"], bare["said"]) == ("loaded", "not loaded", "")


@pytest.mark.parametrize("options", [("-static",), ("-static-pie",)])
def test_a_static_program_has_no_loader(native: Path, tmp_path: Path, options: tuple[str, ...]) -> None:
    (found,) = loads(native, compiled(tmp_path, *options))
    assert (found["state"], found["loader"]) == ("static", "")


def test_a_program_is_found_as_a_shell_finds_it(native: Path, tmp_path: Path) -> None:
    program = compiled(tmp_path)
    found = loads(native, "program", "none", path=f"/nowhere::{tmp_path}")
    assert [(each["path"], each["state"]) for each in found] == [(str(program), "loaded"), ("", "no program")]


@pytest.mark.parametrize(
    "line", ["#!{program}", "#! {program} -u", "#!/usr/bin/env program", "#!/usr/bin/env -S A=1 program"]
)
def test_a_script_counts_as_its_interpreter(native: Path, tmp_path: Path, line: str) -> None:
    program = compiled(tmp_path)
    written = script(tmp_path / "script", line.format(program=program), "words")
    (found,) = loads(native, written, path=str(tmp_path))
    assert (found["program"], found["path"], found["state"]) == (str(written), str(program), "loaded")


@pytest.mark.parametrize(
    ("name", "state"),
    [
        ("folder", "unreadable"), ("text", "no 64-bit program"), ("empty", "no 64-bit program"),
        ("short", "no 64-bit program"), ("narrow", "no 64-bit program"), ("itself", "no 64-bit program"),
        ("l" * 300 + "/program", "no program"),
    ],
)  # fmt: skip
def test_other_files_are_named(native: Path, tmp_path: Path, name: str, state: str) -> None:
    (tmp_path / "folder").mkdir()
    for other, content in {
        "text": b"hello",
        "empty": b"",
        "short": b"\x7fELF\x02",
        "narrow": b"\x7fELF\x01" + bytes(99),
    }.items():
        (tmp_path / other).write_bytes(content)
    script(tmp_path / "itself", f"#!{tmp_path}/itself")
    (found,) = loads(native, tmp_path / name)
    assert found["state"] == state


def test_a_program_without_its_loader_says_so(native: Path, tmp_path: Path) -> None:
    (found,) = loads(native, compiled(tmp_path, "-Wl,--dynamic-linker=/nowhere/ld.so"))
    assert (found["state"], found["loader"]) == ("no loader", "/nowhere/ld.so")


def test_a_loader_that_writes_without_end_costs_no_memory(native: Path, tmp_path: Path) -> None:
    """Somebody else's image may have any loader: the rest of its output is thrown away, and the line is short."""
    loader = script(tmp_path / "ld", "#!/bin/sh", "head -c 4000000 /dev/zero | tr '\\0' x", "exit 1")
    (found,) = loads(
        native, compiled(tmp_path, f"-Wl,--dynamic-linker={loader}"), preload="", path=os.defpath
    )
    assert (found["state"], found["said"]) == ("not loaded", "x" * 199)


@pytest.mark.parametrize(
    ("words", "status"),
    [((), 2), (("/proc/self/fd/1",), 2), (("/nowhere/file", "sh"), 1), (("/dev/full", "sh"), 1)],
)
def test_wrong_arguments_have_a_status(native: Path, words: tuple[str, ...], status: int) -> None:
    command = [str(native / "vgpu-loads"), *words]
    done = subprocess.run(command, env={}, capture_output=True, check=False, timeout=60)
    assert done.returncode == status
