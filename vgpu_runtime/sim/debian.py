"""Unpacks Debian packages into a folder without installing them; apt lists the packages that are needed.

The module needs apt-get and dpkg-deb, but not root. If the machine's package lists are missing, or lack the package,
lists are first fetched into a folder of our own.
"""

import platform
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

_TIMEOUT_SECONDS = 600


class DebianUnavailableError(RuntimeError):
    """The packages are not available on this machine; the message gives the reason and a cure."""


class Apt:
    """apt, working in the folder `scratch`, with package lists that offer the package `sought`.

    `release` is Debian's codename of the packages, `architecture` Debian's name of the machines for which they are; by
    default both are this machine's own. Packages of `release` may need some of the release `beside`. Raises
    DebianUnavailableError, as its methods do.
    """

    def __init__(
        self, scratch: Path, sought: str, release: str = "", architecture: str = "", beside: str = ""
    ) -> None:
        missing = [tool for tool in ("apt-get", "dpkg-deb") if shutil.which(tool) is None]
        if missing:
            raise DebianUnavailableError(
                f"{' and '.join(missing)} not found: {sought} is unpacked from Debian packages"
            )
        self._scratch = scratch
        self._options: list[str] = []
        # Without this apt prefers the packages of `beside`, even where those of `release` do not fit them.
        self._preferred = ["--target-release", release] if beside else []
        own = platform.freedesktop_os_release().get("VERSION_CODENAME", "")
        if release not in ("", own) or architecture or not _offered(sought):
            self._options = _own_lists(scratch)
            if architecture:
                self._options += _for(architecture)
            if release not in ("", own):
                self._options += self._only([release, *([beside] if beside else [])], own)
            self._run(["apt-get", *self._options, "--quiet", "update"], "fetching package lists")

    def needs(self, *packages: str, bare: bool = False) -> dict[str, str]:
        """The version, by name, of each package that apt would install; with `bare`, as if none were installed yet."""
        options = [*self._options, *(["-o", "Dir::State::status=/dev/null"] if bare else [])]
        wanted = ["--simulate", "--no-install-recommends", *self._preferred, "install", *packages]
        command = ["apt-get", *options, *wanted]
        plan = self._run(command, f"asking apt what {' and '.join(packages)} need")
        lines = [line.split() for line in plan.splitlines() if line.startswith("Inst ")]
        # Inst NAME [VERSION INSTALLED] (VERSION ARCHIVE [ARCHITECTURE])
        return {words[1]: next(word.strip("()") for word in words if word.startswith("(")) for words in lines}

    def unpack(self, packages: Iterable[str], root: Path) -> Mapping[str, str]:
        """Download packages (NAME or NAME=VERSION) and unpack them into the new folder `root`; returns the versions."""
        command = ["apt-get", *self._options, "--quiet", "download", *sorted(packages)]
        self._run(command, "downloading packages")
        versions = {}
        root.mkdir()
        for archive in sorted(self._scratch.glob("*.deb")):
            name, versions[name], _ = archive.name.split("_")
            self._run(["dpkg-deb", "-x", str(archive), str(root)], f"unpacking {archive.name}")
            archive.unlink()
        root.chmod(0o755)
        return versions

    def _only(self, releases: Iterable[str], own: str) -> list[str]:
        """Options that make apt use only these releases, from the server of the machine's own release."""
        asked = ["apt-get", "indextargets", "--format", "$(RELEASE) $(REPO_URI)", "Created-By: Packages"]
        servers = dict(line.split() for line in self._run(asked, "asking apt for its server").splitlines())
        if own not in servers:
            raise DebianUnavailableError(f"apt names no server of packages of {own or 'this machine'}")
        sources = self._scratch / "sources.list"
        sources.write_text("".join(f"deb {servers[own]} {release} main\n" for release in releases))
        settings = {
            "Dir::Etc::sourcelist": sources,
            "Dir::Etc::sourceparts": "-",
            "Acquire::Languages": "none",
        }
        return [part for key, value in settings.items() for part in ("-o", f"{key}={value}")]

    def _run(self, command: list[str], doing: str) -> str:
        """Run a command and return its output. Our messages never quote the output, because it names package hosts."""
        try:
            done = subprocess.run(
                command,
                cwd=self._scratch,
                capture_output=True,
                check=True,
                timeout=_TIMEOUT_SECONDS,
                text=True,
            )
        except subprocess.TimeoutExpired as error:
            raise DebianUnavailableError(f"{doing} took longer than {_TIMEOUT_SECONDS} s") from error
        except subprocess.CalledProcessError as error:
            raise DebianUnavailableError(
                f"{doing} failed with status {error.returncode}; to see why, run {command[0]} yourself"
            ) from None
        return done.stdout


def kept(final: Path, prefix: str, make: Callable[[Path], Path]) -> Path:
    """The folder `final`; if it does not exist, it is made first, by renaming the folder that `make(scratch)` returns.

    Any number of processes may call this at once: the folder appears complete, by one rename.
    """
    if final.is_dir():
        return final
    final.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=prefix, dir=final.parent) as scratch:
        made = make(Path(scratch))
        try:
            made.rename(final)
        except OSError:
            if not final.is_dir():  # else another process was first, with equal content
                raise
    return final


def _offered(package: str) -> bool:
    """True if the machine's own package lists name the package."""
    command = ["apt-cache", "show", "--no-all-versions", package]
    return subprocess.run(command, capture_output=True, check=False, timeout=_TIMEOUT_SECONDS).returncode == 0


def _for(architecture: str) -> list[str]:
    """Options that make apt use only packages of this architecture."""
    names = ("APT::Architecture", "APT::Architectures")
    return [part for name in names for part in ("-o", f"{name}={architecture}")]


def _own_lists(scratch: Path) -> list[str]:
    """Options that make apt keep its lists and caches below `scratch`."""
    for folder in ("state/lists/partial", "cache/archives/partial"):
        (scratch / folder).mkdir(parents=True)
    settings = {
        "Dir::State": scratch / "state",
        "Dir::Cache": scratch / "cache",
        "APT::Sandbox::User": "root",
    }
    return [part for key, value in settings.items() for part in ("-o", f"{key}={value}")]
