"""`vgpu demo`: a cluster on this machine with simulated cards, and the story that `make demo` tells on it.

    vgpu demo run [--keep]     the story; with --keep the cluster stays
    vgpu demo submit FILE      create the pods and Jobs of a YAML file
    vgpu demo status           cards and pods
    vgpu demo logs POD         what a pod's containers printed
    vgpu demo delete POD       end a pod, or with job/NAME a Job and its pods
    vgpu demo explain [POD]    why pods wait, and who holds what: /explain of the cluster service
    vgpu demo queue            the Jobs of queues, as `vgpu queue` shows them
    vgpu demo why JOB          why a Job of a queue is where it is, as `vgpu why` says
    vgpu demo kubeconfig       a file for `vgpu cordon`, `drain` and `defrag`
    vgpu demo end              end the cluster

All but `run` talk to the cluster that `run --keep` left running.
"""

import argparse
import sys
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import yaml
from rich.console import Console

from device_plugin.cli.queue import as_table
from hack.demo import queue_story, session
from hack.demo.demo_api import DemoApi, manifests
from hack.demo.session import DemoError
from hack.demo.show import StoryPage
from hack.demo.story import CheckFailedError, tell
from hack.embedded.person import NotInTimeError
from vgpu_runtime.sim import hip


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The words that follow `vgpu demo`."""
    actions = parser.add_subparsers(metavar="ACTION", required=True)

    def add(name: str, text: str, action: Callable[[argparse.Namespace], None]) -> argparse.ArgumentParser:
        added = actions.add_parser(name, help=text)
        added.set_defaults(action=action)
        return added

    run_ = add("run", "start the cluster, tell the story, end it", run_story)
    run_.add_argument("--keep", action="store_true", help="leave the cluster running at the end")
    add("submit", "create the pods and Jobs of a YAML file", submit).add_argument(
        "file", type=Path, metavar="FILE"
    )
    add("status", "show cards and pods", status)
    add("logs", "show what a pod's containers printed", logs).add_argument("pod", metavar="POD")
    deleted = add("delete", "delete a pod, or a Job and its pods", delete)
    deleted.add_argument("name", metavar="NAME", help="of a pod, or job/NAME")
    explained = add("explain", "show /explain of the cluster service", explain)
    explained.add_argument("pod", metavar="POD", nargs="?", help="only this one (or NAMESPACE/POD)")
    add("queue", "show the Jobs of queues", queue)
    asked = add("why", "show why a Job of a queue is where it is", why)
    asked.add_argument("job", metavar="JOB", help="its name (or NAMESPACE/JOB)")
    add("kubeconfig", "print a kubeconfig for `vgpu cordon`, `drain` and `defrag`", kubeconfig)
    add("end", "end the cluster", end)


def run(args: argparse.Namespace) -> int:
    """Do the chosen action. Raises VgpuError for what cannot be done."""
    args.action(args)
    return 0


def run_story(args: argparse.Namespace) -> None:
    """Tell the story on a new cluster; exits with 1 if a check fails. Raises DemoError if one runs already."""
    session.forbid()
    page = StoryPage(Console())
    page.runtime(_runtime(page))
    started = time.monotonic()
    current = session.start()
    try:
        api = DemoApi(current)
        tell(api, page)
        queue_story.tell(api, page)
    except (CheckFailedError, NotInTimeError) as error:
        page.broken(str(error))
        sys.exit(1)
    finally:
        if not args.keep:
            session.end()
    page.end(time.monotonic() - started, keep=args.keep)


def submit(args: argparse.Namespace) -> None:
    """Create the pods and Jobs of a file."""
    with closing(DemoApi(session.require())) as api:
        for manifest in manifests(args.file):
            made = api.create(manifest)
            print(f"{manifest['kind'].lower()}/{made['metadata']['name']} created")


def status(_: argparse.Namespace) -> None:
    """Show the cards with their holders, and the pods."""
    api = DemoApi(session.require())
    page = StoryPage(Console())
    page.cards(api.cards())
    page.pods(api.pods(), api)


def logs(args: argparse.Namespace) -> None:
    """Print the output of a pod's containers."""
    api = DemoApi(session.require())
    printed = api.logs(args.pod)
    if not printed and api.pod(args.pod) is None:
        names = ", ".join(pod["metadata"]["name"] for pod in api.pods()) or "none"
        raise DemoError(f"no pod {args.pod}; there are: {names}")
    sys.stdout.write(printed)


def delete(args: argparse.Namespace) -> None:
    """Delete the named pod or Job."""
    job = args.name.startswith("job/")
    name = args.name.removeprefix("job/").removeprefix("pod/")
    with closing(DemoApi(session.require())) as api:
        api.delete(name, kind="Job" if job else "Pod")
    print(f"{'job' if job else 'pod'}/{name} deleted")


def explain(args: argparse.Namespace) -> None:
    """Print the answer of /explain about everything, or one pod."""
    sys.stdout.write(DemoApi(session.require()).explanation(args.pod))


def queue(_: argparse.Namespace) -> None:
    """Print the Jobs of queues."""
    jobs = DemoApi(session.require()).queue()
    print(as_table(jobs) if jobs else "no job is in a queue")


def why(args: argparse.Namespace) -> None:
    """Print the engine's paragraph about a Job."""
    print(DemoApi(session.require()).why(args.job))


def kubeconfig(_: argparse.Namespace) -> None:
    """Print a kubeconfig of the cluster."""
    named = {"name": "demo", "cluster": {"server": session.require().api}}
    context = {"name": "demo", "context": {"cluster": "demo", "user": ""}}
    config = {"apiVersion": "v1", "kind": "Config", "clusters": [named], "contexts": [context]}
    print(yaml.safe_dump({**config, "current-context": "demo"}), end="")


def end(_: argparse.Namespace) -> None:
    """End the cluster, if one runs."""
    print("the demo cluster has ended" if session.end() else "no demo cluster is running")


def _runtime(page: StoryPage) -> str:
    cache = hip.default_cache()
    if not hip.present(cache):
        page.step(f"set-up: HIP {hip.VERSION} from Debian's packages, 80 to 190 MB in {cache} (usually 20 s)")
    try:
        hip.ensure(cache)
    except hip.HipUnavailableError as error:
        return f"no HIP runtime ({error}): the pods use a small program that asks the driver itself"
    return f"HIP {hip.VERSION} and ROCr from Debian's packages, over a simulated kernel driver"
