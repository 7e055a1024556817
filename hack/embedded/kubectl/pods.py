"""The commands about one pod: `kubectl logs`, `exec` and `port-forward`."""

import argparse
import sys

from hack.embedded.kubectl import streams
from hack.embedded.kubectl.api import PODS, Api, KubectlError, resource


def log_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `kubectl logs`."""
    parser.add_argument("pod", nargs="?", default="")
    parser.add_argument("-c", "--container", default="")
    parser.add_argument("-f", "--follow", action="store_true")
    parser.add_argument("-l", "--selector", default="")
    parser.add_argument("--timestamps", action="store_true")
    parser.add_argument("--since-time", default="")
    parser.add_argument("--since", default="", help="seconds, such as 10s")
    parser.add_argument("--tail", default="")


def logs(api: Api, args: argparse.Namespace) -> int:
    """Print the output of a pod's container, of a Job's pod, or of all pods that a selector finds."""
    query = {
        "container": args.container, "follow": "true" if args.follow else "",
        "timestamps": "true" if args.timestamps else "", "sinceTime": args.since_time,
        "sinceSeconds": args.since.removesuffix("s"), "tailLines": args.tail if args.tail != "-1" else "",
    }  # fmt: skip
    for pod in _selected(api, args.selector) if args.selector else [_pod(api, args.pod)]:
        streams.logs(api, pod, query)
    return 0


def exec_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `kubectl exec`."""
    parser.add_argument("pod")
    parser.add_argument("-c", "--container", default="")
    parser.add_argument("-i", "--stdin", action="store_true")
    parser.add_argument("-t", "--tty", action="store_true")


def execute(api: Api, args: argparse.Namespace) -> int:
    """Run a program in a pod's container; returns its exit code."""
    if not args.program:
        raise KubectlError("error: you must specify at least one command for the container")
    pod = _pod(api, args.pod)
    terminal = args.tty and sys.stdin.isatty()
    return streams.run(api, pod, args.container, args.program, stdin=args.stdin, terminal=terminal)


def forward_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `kubectl port-forward`."""
    parser.add_argument("pod")
    parser.add_argument("ports", nargs="+", metavar="[LOCAL:]REMOTE")
    parser.add_argument("--address", default="127.0.0.1")


def forward(api: Api, args: argparse.Namespace) -> int:
    """Forward local ports to ports of a pod, until interrupted."""
    streams.forward(api, _pod(api, args.pod), args.ports, args.address)
    return 0


def _pod(api: Api, word: str) -> str:
    """The name of the pod: of NAME or pod/NAME, or of a pod of job/NAME or deployment/NAME. Raises KubectlError."""
    kind, _, name = word.rpartition("/")
    found = resource(kind) if kind else PODS
    if found is PODS:
        return name
    spec = api.get(found.path(api.namespace, name))["spec"]
    labels = ",".join(f"{key}={value}" for key, value in spec["selector"]["matchLabels"].items())
    pods = _selected(api, labels)
    if not pods:
        raise KubectlError(f"error: no pod of {word} is there")
    return pods[0]


def _selected(api: Api, labels: str) -> list[str]:
    """The names of pods with these labels."""
    found = api.get(PODS.path(api.namespace), labelSelector=labels)["items"]
    return [str(pod["metadata"]["name"]) for pod in found]
