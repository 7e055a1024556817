"""The commands of `vgpu demo`."""

import argparse
import sys
import time

import yaml
from rich.console import Console

from hack.demo import session
from hack.demo.api import DemoApi, manifests
from hack.demo.show import Page
from hack.demo.story import BrokenPromiseError, tell
from hack.embedded.person import ApiServerError
from vgpu_runtime.sim import hip


def run(args: argparse.Namespace) -> int:
    """Tell the story on a new cluster; 1 if a promise was broken. Raises SessionError if one runs already."""
    session.forbid()
    page = Page(Console())
    page.runtime(_runtime())
    started = time.monotonic()
    current = session.start()
    try:
        tell(DemoApi(current), page)
    except BrokenPromiseError as error:
        page.broken(str(error))
        return 1
    finally:
        if not args.keep:
            session.end()
    page.end(time.monotonic() - started, keep=args.keep)
    return 0


def submit(args: argparse.Namespace) -> int:
    """Create the pods of a file."""
    api = DemoApi(session.require())
    for manifest in manifests(args.file):
        pod = api.create(manifest)
        print(f"pod/{pod['metadata']['name']} created")
    return 0


def status(_: argparse.Namespace) -> int:
    """Show the cards with their holders, and the pods."""
    api = DemoApi(session.require())
    page = Page(Console())
    page.cards(api.cards())
    page.pods(api.pods(), api)
    return 0


def logs(args: argparse.Namespace) -> int:
    """Print the output of a pod's containers."""
    api = DemoApi(session.require())
    printed = api.logs(args.pod)
    if not printed and api.pod(args.pod) is None:
        raise ApiServerError(f"no pod {args.pod}; there are: {_names(api)}")
    sys.stdout.write(printed)
    return 0


def delete(args: argparse.Namespace) -> int:
    """Delete the named pod."""
    DemoApi(session.require()).delete(args.pod)
    print(f"pod/{args.pod} deleted")
    return 0


def explain(args: argparse.Namespace) -> int:
    """Print the answer of /explain about everything, or one pod."""
    sys.stdout.write(DemoApi(session.require()).explanation(args.pod))
    return 0


def kubeconfig(_: argparse.Namespace) -> int:
    """Print a kubeconfig of the cluster."""
    named = {"name": "demo", "cluster": {"server": session.require().api}}
    context = {"name": "demo", "context": {"cluster": "demo", "user": ""}}
    config = {"apiVersion": "v1", "kind": "Config", "clusters": [named], "contexts": [context]}
    print(yaml.safe_dump({**config, "current-context": "demo"}), end="")
    return 0


def end(_: argparse.Namespace) -> int:
    """End the cluster, if one runs."""
    print("the demo cluster has ended" if session.end() else "no demo cluster is running")
    return 0


def _names(api: DemoApi) -> str:
    return ", ".join(pod["metadata"]["name"] for pod in api.pods()) or "none"


def _runtime() -> str:
    try:
        hip.ensure(hip.default_cache())
    except hip.HipUnavailableError as error:
        return f"no HIP runtime ({error}): the pods use a small program that asks the driver itself"
    return f"HIP {hip.VERSION} and ROCr from Debian's packages, over a simulated kernel driver"
