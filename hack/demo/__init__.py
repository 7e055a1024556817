"""`vgpu demo`: a cluster on this machine with simulated cards, and the story that `make demo` tells on it.

    vgpu demo run [--keep]     the story; with --keep the cluster stays
    vgpu demo submit FILE      create the pods of a YAML file
    vgpu demo status           cards and pods
    vgpu demo logs POD         what a pod's containers printed
    vgpu demo delete POD       end a pod
    vgpu demo explain [POD]    why pods wait, and who holds what: /explain of the cluster service
    vgpu demo kubeconfig       a file for `vgpu cordon`, `drain` and `defrag`
    vgpu demo end              end the cluster

All but `run` talk to the cluster that `run --keep` left running.
"""

import argparse
from pathlib import Path

from hack.demo import commands


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The words that follow `vgpu demo`."""
    actions = parser.add_subparsers(metavar="ACTION", required=True)
    run_ = actions.add_parser("run", help="start the cluster, tell the story, end it")
    run_.add_argument("--keep", action="store_true", help="leave the cluster running at the end")
    run_.set_defaults(action=commands.run)
    submit = actions.add_parser("submit", help="create the pods of a YAML file")
    submit.add_argument("file", type=Path, metavar="FILE")
    submit.set_defaults(action=commands.submit)
    actions.add_parser("status", help="show cards and pods").set_defaults(action=commands.status)
    logs = actions.add_parser("logs", help="show what a pod's containers printed")
    logs.add_argument("pod", metavar="POD")
    logs.set_defaults(action=commands.logs)
    delete = actions.add_parser("delete", help="delete a pod")
    delete.add_argument("pod", metavar="POD")
    delete.set_defaults(action=commands.delete)
    explain = actions.add_parser("explain", help="show /explain of the cluster service")
    explain.add_argument("pod", metavar="POD", nargs="?", help="only what concerns it")
    explain.set_defaults(action=commands.explain)
    kubeconfig = actions.add_parser(
        "kubeconfig", help="print a kubeconfig for `vgpu cordon`, `drain` and `defrag`"
    )
    kubeconfig.set_defaults(action=commands.kubeconfig)
    actions.add_parser("end", help="end the cluster").set_defaults(action=commands.end)


def run(args: argparse.Namespace) -> int:
    """Do the chosen action; its exit status."""
    status: int = args.action(args)
    return status
