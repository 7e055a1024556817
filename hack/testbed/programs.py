"""Builds Kubernetes, containerd and helm into the cache, once; the cluster's other programs are Debian's.

For hack/nightly it also builds prometheus-adapter, Prometheus' operator, and the controllers that a cluster runs as
images (hack/testbed/controllers.py).

The versions are in the go.mod files in this folder. With $VGPU_KUBERNETES=1.34 or 1.35, Kubernetes has the version in
kubernetes/v1.34.mod or v1.35.mod. Builds are kept by version.
"""

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from vgpu_runtime.sim.hip import default_cache

HERE = Path(__file__).resolve().parent
CNI = Path("/usr/lib/cni")
RELEASE = "VGPU_KUBERNETES"
KUBERNETES = (
    "etcd",
    "kube-apiserver",
    "kube-controller-manager",
    "kube-proxy",
    "kube-scheduler",
    "kubectl",
    "kubelet",
)
_OPERATOR = "github.com/prometheus-operator/prometheus-operator"
# By tool, its Debian package.
TOOLS = {
    "ip": "iproute2",
    "nft": "nftables",
    "nsenter": "util-linux",
    "openssl": "openssl",
    "runc": "runc",
    "unshare": "util-linux",
}


class MissingError(Exception):
    """The machine does not have all requirements; the text has a line for each missing one, with a command."""


@dataclass(frozen=True)
class Programs:
    """The folders of the programs; `kubernetes` has a link for each of its programs."""

    kubernetes: Path
    containerd: Path
    helm: Path

    @property
    def kube(self) -> Path:
        """The binary that has all programs of Kubernetes."""
        return self.kubernetes / "kube"

    def path(self) -> str:
        """A value for $PATH with all folders."""
        return f"{self.kubernetes}:{self.containerd}:{self.helm}:/usr/sbin:/usr/bin:/sbin:/bin"


def version(module: str) -> str:
    """The version of a Go module in our go.mod files, such as v1.36.3."""
    others = (HERE / name / "go.mod" for name in ("containerd", "helm", "prometheus-adapter"))
    for file in (_requirements(), *others):
        if found := _required(module, file):
            return found
    raise LookupError(module)


def pinned(folder: str, module: str) -> str:
    """The version of a Go module in the go.mod file of this folder of hack/testbed. Raises LookupError."""
    found = _required(module, HERE / folder / "go.mod")
    if found is None:
        raise LookupError(module)
    return found


def _required(module: str, file: Path) -> str | None:
    found = re.search(rf"^(?:require )?\s*{re.escape(module)} (v\S+)", file.read_text(), re.MULTILINE)
    return found[1] if found else None


def _requirements() -> Path:
    """The go.mod file for Kubernetes' programs. Raises MissingError if $VGPU_KUBERNETES names an unknown release."""
    release = os.environ.get(RELEASE)
    file = HERE / "kubernetes" / (f"v{release}.mod" if release else "go.mod")
    if not file.exists():
        known = ", ".join(sorted(path.stem.removeprefix("v") for path in file.parent.glob("v*.mod")))
        raise MissingError(f"no Kubernetes {release} here: {RELEASE} may be {known}, or empty")
    return file


def check() -> None:
    """Raise MissingError if the machine cannot run the cluster."""
    missing = []
    if os.geteuid() != 0:
        missing.append("root: the cluster makes namespaces and mounts; run this as root (sudo -E)")
    plugins = () if (CNI / "ptp").exists() else ("containernetworking-plugins",)
    programs = installed()
    wanted = (programs.kube, programs.containerd / "containerd", programs.helm / "helm")
    built = all(program.exists() for program in wanted)
    _refuse(
        [*missing, *_lacking(TOOLS, *plugins), *_go_lacking("Kubernetes, containerd and helm", built=built)]
    )


def _lacking(tools: Iterable[str], *more: str) -> Iterator[str]:
    """Yield a line with the command that installs `more` and the missing `tools`; no line if none is missing."""
    packages = sorted({TOOLS[tool] for tool in tools if shutil.which(tool) is None})
    if packages or more:
        names = " ".join([*packages, *more])
        yield f"Debian packages: apt-get install --no-install-recommends {names}"


def _go_lacking(what: str, *, built: bool) -> Iterator[str]:
    if not built and shutil.which("go") is None:
        yield f"Go 1.26 or newer, to build {what}: https://go.dev/doc/install"


def _refuse(missing: Sequence[str]) -> None:
    if missing:
        raise MissingError("\n".join(f"missing: {line}" for line in missing))


def installed() -> Programs:
    """The folders of the programs; they exist after `ensure`."""
    cache = default_cache() / "programs"
    return Programs(
        cache / f"kubernetes-{version('k8s.io/kubernetes')}",
        cache / f"containerd-{version('github.com/containerd/containerd/v2')}",
        cache / f"helm-{version('helm.sh/helm/v3')}",
    )


def ensure() -> Programs:
    """Build the missing programs, and return the folders; building all takes 8 minutes on two cores.

    Raises MissingError, CalledProcessError.
    """
    check()
    programs = installed()
    kubernetes()
    if not (programs.containerd / "containerd").exists():
        _appear(programs.containerd, _build_containerd)
    helm()
    return programs


def helm() -> Path:
    """The program helm; if it is missing it is built, which takes 2 minutes of one CPU.

    Raises MissingError, CalledProcessError.
    """
    folder = installed().helm
    built = (folder / "helm").exists()
    _refuse([*_go_lacking("helm", built=built)])
    if not built:
        _appear(folder, _build_helm)
    return folder / "helm"


def prometheus_operator() -> Path:
    """The folder of Prometheus' operator, with its resource definitions in the subfolder `crds`.

    If it is missing it is built, which takes 4 minutes of one CPU. Raises MissingError, CalledProcessError.
    """
    version = _required(_OPERATOR, HERE / "prometheus-operator/go.mod")
    folder = default_cache() / "programs" / f"prometheus-operator-{version}"
    built = (folder / "operator").exists()
    _refuse([*_go_lacking("Prometheus' operator", built=built)])
    if not built:
        _appear(folder, _build_operator)
    return folder


def controller(name: str, module: str, manifests: str) -> Path:
    """The folder of another project's controller: its program, and the module's folder `manifests` with its files.

    `name` is the folder of hack/testbed with its go.mod, which pins the version. If the program is missing it is built,
    which takes 4 minutes of one CPU. Raises MissingError, CalledProcessError.
    """
    folder = default_cache() / "programs" / f"{name}-{pinned(name, module)}"
    built = folder.exists()
    _refuse([*_go_lacking(name, built=built)])
    if not built:
        _appear(folder, partial(_build_controller, name, module, manifests))
    return folder


def prometheus_adapter() -> Path:
    """The program of prometheus-adapter; if it is missing it is built, which takes 2 minutes.

    Raises MissingError, CalledProcessError.
    """
    module = "prometheus-adapter"
    folder = default_cache() / "programs" / f"{module}-{version(f'sigs.k8s.io/{module}')}"
    built = (folder / "adapter").exists()
    _refuse([*_go_lacking(module, built=built)])
    if not built:
        _appear(folder, lambda scratch: _go(HERE / module, scratch, "install", "-ldflags", "-s -w", "tool"))
    return folder / "adapter"


def kubernetes() -> Path:
    """The folder of Kubernetes' programs, which are built if they are missing; a control plane needs no root.

    Raises MissingError, CalledProcessError.
    """
    programs = installed()
    built = programs.kube.exists()
    _refuse([*_lacking(["openssl"]), *_go_lacking("Kubernetes", built=built)])
    if not built:
        _appear(programs.kubernetes, _build_kubernetes)
    return programs.kubernetes


def _build_kubernetes(folder: Path) -> None:
    release = version("k8s.io/kubernetes")
    major, minor, _ = release.removeprefix("v").split(".")
    stamps = {"gitVersion": release, "gitMajor": major, "gitMinor": minor}
    stamped = " ".join(f"-X k8s.io/component-base/version.{name}={value}" for name, value in stamps.items())
    stamp = ("-modfile", _requirements().name, "-ldflags", f"-s -w {stamped}")
    _go(HERE / "kubernetes", folder, "build", *stamp, "-o", str(folder / "kube"), ".")
    for name in KUBERNETES:
        (folder / name).symlink_to("kube")


def _build_containerd(folder: Path) -> None:
    _go(
        HERE / "containerd",
        folder,
        "install",
        "-tags",
        "no_btrfs no_devmapper no_zfs",
        "-ldflags",
        "-s -w",
        "tool",
    )


def _build_helm(folder: Path) -> None:
    # Without a cluster, charts are rendered for the Kubernetes of helm's own client, as in its official builds.
    client = _required("k8s.io/client-go", HERE / "helm/go.mod")
    if client is None:
        raise LookupError("k8s.io/client-go")
    _, minor, _ = client.split(".")
    known = {"k8sVersionMajor": "1", "k8sVersionMinor": minor}
    packages = ("pkg/chartutil", "pkg/lint/rules")
    stamps = [
        f"-X helm.sh/helm/v3/{package}.{name}={value}"
        for package in packages
        for name, value in known.items()
    ]
    _go(HERE / "helm", folder, "install", "-ldflags", " ".join(["-s -w", *stamps]), "tool")


def _build_operator(folder: Path) -> None:
    module = HERE / "prometheus-operator"
    _go(module, folder, "install", "-ldflags", "-s -w", "tool")
    _copy(_source(module, _OPERATOR) / "example/prometheus-operator-crd", folder / "crds")


def _build_controller(name: str, module: str, manifests: str, folder: Path) -> None:
    _go(HERE / name, folder, "install", "-ldflags", "-s -w", "tool")
    _copy(_source(HERE / name, module) / manifests, folder / manifests)


def _source(folder: Path, module: str) -> Path:
    """The folder of a module's files in Go's cache."""
    asked = ["go", "list", "-m", "-f", "{{.Dir}}", module]
    return Path(subprocess.run(asked, cwd=folder, capture_output=True, text=True, check=True).stdout.strip())


def _copy(source: Path, target: Path) -> None:
    """Copy a folder of Go's cache, whose files and folders nobody may write."""
    subprocess.run(["cp", "-r", "--no-preserve=mode", source, target], check=True)


def _go(module: Path, folder: Path, verb: str, *arguments: str) -> None:
    print(f"building {module.name} (once, some minutes)", flush=True)
    environment = {
        **os.environ,
        "CGO_ENABLED": "0",
        "GOBIN": str(folder),
        "GOFLAGS": "-buildvcs=false -trimpath",
    }
    subprocess.run(["go", verb, *arguments], cwd=module, env=environment, check=True)


def _appear(final: Path, build: Callable[[Path], None]) -> None:
    """Make the folder `final`, filled by `build`; it appears atomically."""
    final.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".building-", dir=final.parent) as scratch:
        whole = Path(scratch) / "whole"
        whole.mkdir()
        build(whole)
        shutil.rmtree(final, ignore_errors=True)
        whole.rename(final)
