"""hack/cluster: a real Kubernetes of several nodes on this machine, as root, without Docker.

hack/cluster up                      # 3 nodes with the project's images; the first time it builds what is missing
hack/cluster kubectl get nodes
hack/cluster logs n1 kubelet
hack/cluster stop n1 kubelet         # start, kill, pause, resume likewise
hack/cluster crash n1                # the node loses its power; boot brings it back
hack/cluster run COMMAND...          # inside the cluster's network, with $KUBECONFIG
hack/cluster down
"""

import argparse
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from hack.testbed import archives, images, layout, programs
from hack.testbed.cluster import Cluster, ClusterError
from hack.testbed.supervisor import OrderError
from vgpu_runtime.sim.debian import DebianUnavailableError

NODES = 3
INSIDE = {
    "kubectl": "run kubectl as the cluster's administrator",
    "run": "run any command inside the cluster's network",
}
ONE = {
    "start": "start a program of a machine",
    "stop": "stop a program of a machine (SIGTERM)",
    "kill": "kill a program of a machine (SIGKILL)",
    "pause": "pause a program of a machine (SIGSTOP)",
    "resume": "let a paused program go on (SIGCONT)",
}
ALL = {
    "crash": "take a machine's power: all its programs and containers die",
    "boot": "start all programs of a machine",
}


def main(argv: Sequence[str] | None = None) -> int:
    """Carry out one command; returns the exit status."""
    parser = _parser()
    arguments, rest = parser.parse_known_args(argv)
    if arguments.command not in (*INSIDE, "on") and rest:
        parser.error(f"unrecognized arguments: {' '.join(rest)}")
    cluster = Cluster(layout.here(), programs.installed())
    try:
        return _carry_out(cluster, arguments, rest)
    except programs.MissingError as error:
        print(error, file=sys.stderr)
    except (ClusterError, OrderError, DebianUnavailableError, archives.ArchiveError) as error:
        print(f"hack/cluster: {error}", file=sys.stderr)
    except subprocess.CalledProcessError as error:
        print(f"hack/cluster: {error.cmd[0]} ended with status {error.returncode}", file=sys.stderr)
    return 1


def _carry_out(cluster: Cluster, arguments: argparse.Namespace, rest: list[str]) -> int:
    if arguments.command not in ("up", "down"):
        cluster.require()
    match arguments.command:
        case "up":
            _up(cluster, arguments.nodes, arguments.image)
        case "down":
            was_up = cluster.pid() is not None
            cluster.down()
            print(f"down; logs stay in {cluster.layout.root}" if was_up else "no cluster was up")
        case "kubectl":
            return cluster.run(["kubectl", *rest])
        case "run":
            return cluster.run(rest)
        case "on":
            done = cluster.order(arguments.machine, "run", command=rest)
            print(done["output"], end="")
            return int(str(done["status"]))
        case "logs":
            _logs(cluster, arguments.machine, arguments.program)
        case do if do in ALL:
            cluster.order(arguments.machine, do)
        case do:
            cluster.order(arguments.machine, do, program=arguments.program)
    return 0


def _up(cluster: Cluster, nodes: int | None, given: Sequence[Path]) -> None:
    if cluster.pid() is not None:
        if nodes or given:
            raise ClusterError(
                "a cluster is up already; for other nodes or images run hack/cluster down first"
            )
        print(f"the cluster is up already, with {len(cluster.nodes())} nodes")
        return
    for file in given:
        archives.index(file)
    programs.ensure()
    # The image of the sandbox is always added, because no pod starts without it.
    found = [*(file.resolve() for file in given), images.build("pause")] if given else images.build_all()
    cluster.up(nodes or NODES, found)
    print(f"{nodes or NODES} nodes are Ready: hack/cluster kubectl get nodes")


def _logs(cluster: Cluster, machine: str, program: str | None) -> None:
    cluster.know(machine)
    folder = cluster.layout.machine(machine)
    logs = sorted(path.stem for path in folder.glob("*.log"))
    if program is None:
        print(*logs, sep="\n")
    elif program in logs:
        print((folder / f"{program}.log").read_text(errors="replace"), end="")
    else:
        raise ClusterError(f"no log of {program} on {machine}; there are: {', '.join(logs)}")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="hack/cluster", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    up = commands.add_parser("up", help="start the cluster; nothing happens if it is up")
    up.add_argument("--nodes", type=_count, help=f"1 to {layout.MOST_NODES} (default: {NODES})")
    up.add_argument(
        "--image", type=Path, action="append", default=[], metavar="ARCHIVE",
        help="archive of images for every node, instead of the project's own; may repeat",
    )  # fmt: skip
    commands.add_parser("down", help="end the cluster and all that runs in it; its logs stay")
    for name, text in INSIDE.items():
        commands.add_parser(name, help=text, add_help=False)
    machine = {"on": "run a command on a machine", "logs": "print the log of a program of a machine"}
    for name, text in (machine | ONE | ALL).items():
        command = commands.add_parser(name, help=text, add_help=name != "on")
        command.add_argument("machine", help="control-plane, n1, n2, ...")
        if name == "logs":
            command.add_argument("program", nargs="?", help="without it: which programs have a log")
        elif name in ONE:
            command.add_argument("program", help="kubelet, containerd, etcd, kube-apiserver, ...")
    return parser


def _count(text: str) -> int:
    count = int(text)
    if not 1 <= count <= layout.MOST_NODES:
        raise argparse.ArgumentTypeError(f"1 to {layout.MOST_NODES} nodes")
    return count


if __name__ == "__main__":
    sys.exit(main())
