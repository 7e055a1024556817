"""Fuzz all that a container can pass to the library and to the agent.

hack/fuzz                        # every target for 10 minutes, two at a time
hack/fuzz --seconds 60 config    # one of them
hack/fuzz --input FILE kfd       # once, with an input that found something

The targets in C run under libFuzzer, with clang's sanitizers for addresses and undefined behaviour: the parser of
vgpu.conf; over the simulated driver, requests to KFD, requests to DRM, and a usage region that the program itself
changes; and vgpu-smi's reader of such a region. The targets in Python: the agent's reader of the region, and its parser
of vgpu.conf, which must accept the same texts as the library. A line for each target says how it ended; if it found a
fault, the line names the file with the input.
"""

import argparse
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tests.runtime import regions
from tests.runtime.slices import LIMIT_MIB, SHAPES, make
from tests.runtime.test_config import FINE
from vgpu_runtime import region
from vgpu_runtime.config import ConfigError
from vgpu_runtime.paths import BUILD, SOURCES
from vgpu_runtime.rocm import parse
from vgpu_runtime.sim import Kernel

HARNESSES = SOURCES.parent / "tests/runtime/fuzz"
# The folder for inputs that have found a fault.
FINDINGS = BUILD / "fuzz"
COMPILE = (
    *(
        "clang",
        "-std=gnu11",
        "-g",
        "-O1",
        "-Wall",
        "-Wextra",
        "-Werror",
        "-DVGPU_TEST_BUILD",
        "-U_FORTIFY_SOURCE",
    ),
    *("-fsanitize=fuzzer,address,undefined", "-fno-sanitize-recover=all"),
    *(f"-I{SOURCES / folder}" for folder in ("include", "native/common", "native/rocm")),
)
KEYS = ("version", "pod", "container", "enforcement", "uuid", "pci", "model", "request", "mem_bytes", "gpu_id",
        "render_minor", "compute_units", "xcc", "paired", "masks", "mask", "[card]", "[rocm]", " = ", "0x")  # fmt: skip


class FuzzToolMissingError(Exception):
    """A tool that fuzzing needs is not installed; the message has the command that installs it."""


@dataclass(frozen=True)
class FuzzOutcome:
    """The result of one target. `finding` is the file with the input that found a fault, or a text about it."""

    target: str
    runs: int
    finding: str = ""


@dataclass(frozen=True)
class Session:
    """A run of fuzzing. `programs` is the folder of the harnesses; `seed` decides the inputs, unless `input` is set."""

    programs: Path
    seconds: int
    seed: int
    input: Path | None

    def config(self) -> FuzzOutcome:
        """Fuzz the library's parser; the agent's parser must accept the same texts of the resulting corpus."""
        with tempfile.TemporaryDirectory() as folder:
            corpus = Path(folder)
            for name, text in FINE.items():
                (corpus / name.replace(" ", "-")).write_text(text)
            dictionary = self.programs / "keys"
            dictionary.write_text("".join(f'"{key}"\n' for key in KEYS))
            outcome = self._libfuzzer("config", {}, corpus, f"-dict={dictionary}", "-max_len=8192")
            paths = sorted(corpus.iterdir())
            answers = zip(paths, self._accepted(paths), map(_agent_accepts, paths), strict=True)
            other = [path for path, library, agent in answers if library != agent]
            if outcome.finding or not other:
                return outcome
            shutil.copy(other[0], FINDINGS / "config-agent-differs")
            return FuzzOutcome("config", outcome.runs, str(FINDINGS / "config-agent-differs"))

    def calls(self, target: str) -> FuzzOutcome:
        """Fuzz the library's hooks in a slice of a quarter of a card, with the simulated driver."""
        with tempfile.TemporaryDirectory() as folder:
            (corpus := Path(folder) / "corpus").mkdir()
            slice_ = make(Path(folder), BUILD, None, SHAPES["hygon-60cu-16gib"], 15, Kernel.UNCHECKED)
            environment = {
                "SIMKFD_DIR": slice_.environment["SIMKFD_DIR"],
                "VGPU_TEST_FOLDER": folder,
                "FUZZ_TARGET": target,
                "FUZZ_GPU": str(slice_.card.gpu_id),
                "FUZZ_RENDER": "128",
                "FUZZ_LIMIT": str(LIMIT_MIB << 20),
            }
            return self._libfuzzer(target, environment, corpus, "-max_len=1024")

    def smi(self) -> FuzzOutcome:
        """Fuzz vgpu-smi's reader of usage regions, the files of a container's counters."""
        with tempfile.TemporaryDirectory() as folder:
            (corpus := Path(folder) / "corpus").mkdir()
            region.create(Path(folder) / "usage")
            return self._libfuzzer("smi", {"VGPU_TEST_FOLDER": folder}, corpus, "-max_len=1024")

    def agent(self) -> FuzzOutcome:
        """Fuzz the agent's reader of usage regions, the files of a container's counters."""
        rng, until, runs = random.Random(self.seed), time.monotonic() + self.seconds, 0
        with tempfile.TemporaryDirectory() as folder:
            while time.monotonic() < until:
                seed, runs = rng.getrandbits(64), runs + 1
                try:
                    regions.read_damaged(Path(folder) / "usage", random.Random(seed))
                except Exception as error:  # noqa: BLE001 - any exception is a finding
                    return FuzzOutcome("agent", runs, f"{error!r} for the seed {seed}")
        return FuzzOutcome("agent", runs)

    def _libfuzzer(
        self, target: str, environment: Mapping[str, str], corpus: Path, *options: str
    ) -> FuzzOutcome:
        FINDINGS.mkdir(exist_ok=True)
        program = self.programs / (target if target in ("config", "smi") else "calls")
        limits = (
            f"-max_total_time={self.seconds}",
            f"-seed={self.seed}",
            "-timeout=25",
            "-print_final_stats=1",
        )
        done = subprocess.run(
            [program, self.input or corpus, *options, *limits, f"-artifact_prefix={FINDINGS}/{target}-"],
            env=os.environ | environment,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
        )
        said = dict(
            line.partition(": ")[::2] for line in done.stderr.splitlines() if line.startswith("stat::")
        )
        runs = int(said.get("stat::number_of_executed_units", "0"))
        if not done.returncode:
            return FuzzOutcome(target, runs)
        (log := FINDINGS / f"{target}.log").write_text(done.stderr)
        return FuzzOutcome(target, runs, str(log))

    def _accepted(self, paths: Sequence[Path]) -> list[bool]:
        """For each file, true if the library's parser accepts its text."""
        contents = [path.read_bytes() for path in paths]
        texts = b"".join(b"%d\n%s" % (len(content), content) for content in contents)
        done = subprocess.run([self.programs / "parse"], input=texts, capture_output=True, check=True)
        return [answer == b"ok" for answer in done.stdout.splitlines()]


def _agent_accepts(path: Path) -> bool:
    try:
        parse(path.read_bytes().decode("utf-8", "surrogateescape"))
    except ConfigError:
        return False
    return True


def compile_programs(folder: Path) -> None:
    """Build the harnesses into `folder`. Raises FuzzToolMissingError."""
    if not shutil.which("clang"):
        raise FuzzToolMissingError("clang is not installed: apt-get install clang libclang-rt-14-dev")
    subprocess.run(["make", "--no-print-directory", "-s", "-C", SOURCES], check=True)
    own, parser = sorted((SOURCES / "native").glob("*/*.c")), SOURCES / "native/common/config.c"
    driver = ("-Wl,--no-as-needed", BUILD / "libsimkfd.so", f"-Wl,-rpath,{BUILD}", "-ldl", "-lpthread")
    parse_only = [option for option in COMPILE if not option.startswith("-fsanitize=fuzzer")]
    commands: Mapping[str, Sequence[str | Path]] = {
        "config": [*COMPILE, HARNESSES / "config.c", parser],
        "calls": [*COMPILE, HARNESSES / "calls.c", *own, *driver],
        "smi": [*COMPILE, f"-I{SOURCES / 'tools'}", HARNESSES / "smi.c"],
        "parse": [*parse_only, HARNESSES.parent / "parse.c", parser],
    }
    for name, command in commands.items():
        done = subprocess.run([*command, "-o", folder / name], capture_output=True, text=True, check=False)
        if "libclang_rt" in done.stderr:
            raise FuzzToolMissingError(
                "clang has no libFuzzer: apt-get install libclang-rt-14-dev, or of clang's version"
            )
        if done.returncode:
            raise RuntimeError(done.stderr)


TARGETS: Mapping[str, Callable[[Session], FuzzOutcome]] = {
    "config": Session.config,
    **{name: partial(Session.calls, target=name) for name in ("region", "kfd", "drm")},
    "smi": Session.smi,
    "agent": Session.agent,
}


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="hack/fuzz", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    all_targets = ", ".join(TARGETS)
    parser.add_argument("target", nargs="*", metavar="TARGET", help=f"of: {all_targets} (default: all)")
    parser.add_argument("--seconds", type=int, default=600, metavar="N", help="for each (default: 600)")
    parser.add_argument("--seed", type=int, default=random.randrange(1, 1 << 30))
    parser.add_argument(
        "--input", type=Path, metavar="FILE", help="for one target in C: run this input alone"
    )
    options = parser.parse_args()
    if options.input and (len(options.target) != 1 or options.target == ["agent"]):
        parser.error("name the one target in C whose input it is")
    if wrong := set(options.target) - set(TARGETS):
        parser.error(f"no target {', '.join(sorted(wrong))}; there are: {all_targets}")
    if options.seconds < 1:
        parser.error("write --seconds of at least 1")
    return options


def main() -> int:
    """Run the targets and print a line for each; returns 1 if one of them has found a fault."""
    options = _options()
    names, found = options.target or list(TARGETS), 0
    print(f"{options.seconds} s each, seed {options.seed}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        session = Session(Path(folder), options.seconds, options.seed, options.input)
        try:
            compile_programs(session.programs)
        except FuzzToolMissingError as error:
            print(f"hack/fuzz: {error}", file=sys.stderr)
            return 2
        with ThreadPoolExecutor(max_workers=2) as pool:
            for outcome in pool.map(lambda name: TARGETS[name](session), names):
                ending = outcome.finding or "no finding"
                print(f"{outcome.target:<8}{outcome.runs:>10} runs  {ending}", flush=True)
                found += bool(outcome.finding)
    print(f"targets {len(names)}, findings {found}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
