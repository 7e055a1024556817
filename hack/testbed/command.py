"""hack/cluster: a real Kubernetes of several nodes on this machine, as root, without Docker.

hack/cluster up                      # 3 nodes; builds Kubernetes and containerd the first time
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
from pathlib import Path

from hack.testbed import layout, programs
from hack.testbed.cluster import Cluster, ClusterError
from hack.testbed.supervisor import OrderError

ONE = ("start", "stop", "kill", "pause", "resume")
ALL = ("crash", "boot")


def main() -> int:
    """Carry out one command; the exit status."""
    arguments, rest = _parser().parse_known_args()
    if arguments.command not in ("kubectl", "run", "on") and rest:
        _parser().error(f"unrecognized arguments: {' '.join(rest)}")
    cluster = Cluster(layout.here(), programs.installed())
    try:
        return _carry_out(cluster, arguments, rest)
    except programs.MissingError as error:
        print(error, file=sys.stderr)
    except (ClusterError, OrderError) as error:
        print(f"hack/cluster: {error}", file=sys.stderr)
    except subprocess.CalledProcessError as error:
        print(f"hack/cluster: {error.cmd[0]} ended with status {error.returncode}", file=sys.stderr)
    return 1


def _carry_out(cluster: Cluster, arguments: argparse.Namespace, rest: list[str]) -> int:
    match arguments.command:
        case "up":
            programs.ensure()
            if cluster.pid() is not None:
                print(f"the cluster is up already, with {len(cluster.nodes())} nodes")
            else:
                cluster.up(arguments.nodes, arguments.image)
                print(f"{arguments.nodes} nodes are Ready: hack/cluster kubectl get nodes")
        case "down":
            cluster.down()
        case "kubectl":
            return cluster.run(["kubectl", *rest])
        case "run":
            return cluster.run(rest)
        case "on":
            done = cluster.order(arguments.machine, "run", command=rest)
            print(done["output"], end="")
            return int(str(done["status"]))
        case "logs":
            file = cluster.layout.machine(arguments.machine) / f"{arguments.program}.log"
            if not file.exists():
                logs = ", ".join(sorted(path.stem for path in file.parent.glob("*.log")))
                raise ClusterError(f"no log of {arguments.program} on {arguments.machine}; there are: {logs}")
            print(file.read_text(errors="replace"), end="")
        case do if do in ALL:
            cluster.order(arguments.machine, do)
        case do:
            cluster.order(arguments.machine, do, program=arguments.program)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="hack/cluster", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    up = commands.add_parser("up", help="start the cluster; nothing happens if it is up")
    up.add_argument("--nodes", type=_count, default=3, help=f"1 to {layout.MOST_NODES} (default: 3)")
    up.add_argument(
        "--image", type=Path, action="append", default=[], help="OCI archive for every node; may repeat"
    )
    commands.add_parser("down", help="end the cluster and all that runs in it")
    for name, text in (
        ("kubectl", "as the cluster's administrator"),
        ("run", "any command inside the cluster"),
    ):
        commands.add_parser(name, help=text, add_help=False)
    for name in ("on", "logs", *ONE, *ALL):
        command = commands.add_parser(name, add_help=name != "on")
        command.add_argument("machine", help="control-plane, n1, n2, ...")
        if name == "logs" or name in ONE:
            command.add_argument("program", help="kubelet, containerd, etcd, kube-apiserver, ...")
    return parser


def _count(text: str) -> int:
    count = int(text)
    if not 1 <= count <= layout.MOST_NODES:
        raise argparse.ArgumentTypeError(f"1 to {layout.MOST_NODES} nodes")
    return count


if __name__ == "__main__":
    sys.exit(main())
