"""`vgpu ui`: a page for the browser that shows every card, the pods on it, and why others wait.

    vgpu ui                    # prints an address: open it in a browser on this machine
    vgpu ui --open             # opens it
    vgpu ui -n team-a          # the pods of one namespace only
    vgpu ui --prometheus http://localhost:9090    # with the use of cards over time
    vgpu ui --allow-changes    # with buttons that cordon cards, and stop, resume, admit and delete Jobs

It shows what is used of each slice as `vgpu cards` does: by the node agents, or by the Prometheus.
The page shows what your kubeconfig may read, as it changes. Without --allow-changes it changes nothing in the cluster,
and has the commands for changes to copy. It ends with Ctrl-C.
"""

import argparse
import logging
import threading
from contextlib import nullcontext
from functools import partial

from device_plugin.adapters.http.server import MOST_PORT
from device_plugin.cli.access import caller, engine
from device_plugin.cli.access.prometheus import Prometheus
from device_plugin.cli.interrupts import stopped_by_signals
from device_plugin.cli.reading import local_allocator, prefixes, slice_use
from device_plugin.cli.reading.allocator_deployment import read_allocator
from device_plugin.cli.reading.slice_use import SliceUseReader
from device_plugin.cli.ui import browser, changes
from device_plugin.cli.ui.entries import PageEntries
from device_plugin.cli.ui.follow import ClusterFollower
from device_plugin.cli.ui.held import HeldUses
from device_plugin.cli.ui.loopback import LoopbackServer
from device_plugin.cli.ui.server import Answer
from device_plugin.cli.ui.services import JobPlans, PodWhy
from device_plugin.cli.ui.usage import CardUse, NodeUse
from device_plugin.core.errors import VgpuError
from device_plugin.state.claims import ServedClaims

SCHEDULER = "vgpu-scheduler"


class PageError(VgpuError):
    """The page cannot be served."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `vgpu ui`."""
    parser.add_argument("--open", action="store_true", help="open the page in the browser")
    parser.add_argument(
        "--port", type=int, default=0, metavar="PORT", help="port of 127.0.0.1 (default: any that is free)"
    )
    parser.add_argument(
        "--allow-changes", action="store_true",
        help="buttons for changes, made with the rights of your kubeconfig (default: commands to copy)",
    )  # fmt: skip
    slice_use.add_arguments(parser)
    prefixes.add_arguments(parser)
    parser.add_argument(
        "--scheduler-name", default=SCHEDULER, metavar="NAME", help=f"of waiting pods (default: {SCHEDULER})"
    )
    caller.add_namespace(parser, default="all namespaces")
    local_allocator.add_arguments(parser)
    engine.add_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Print the page's address, and serve the page until SIGINT or SIGTERM.

    Raises PageError, PrometheusError, PrefixError, ApiError, EndpointError.
    """
    if not 0 <= args.port <= MOST_PORT:
        raise PageError(f"--port {args.port} is out of range: write 0 to {MOST_PORT}")
    entries = PageEntries()
    source = Prometheus(args.prometheus) if args.prometheus else None
    entries.put("about", {"page": {"use": source is not None, "changes": args.allow_changes}})
    # The page itself shows problems of the watches.
    if not args.verbose:
        logging.getLogger("device_plugin").setLevel(logging.ERROR)
    with caller.connected(args) as client:
        families = prefixes.of(client, args, args.allocator_namespace)
        unit = read_allocator(client, args.allocator_namespace).unit_mib
        follower = ClusterFollower(
            client, entries, families, scheduler=args.scheduler_name,
            namespace=caller.namespace(args), only_namespace=bool(args.namespace),
            served=ServedClaims(args.scheduler_name, unit),
        )  # fmt: skip
        answers: dict[str, Answer] = {"/why": PodWhy(client, args, entries).answer}
        if source is not None:
            answers |= {"/use": CardUse(source, entries).answer, "/day": NodeUse(source, entries).answer}
        try:
            change = partial(changes.make, client) if args.allow_changes else None
            server = LoopbackServer(entries, answers, args.port, change=change)
        except OSError as error:
            raise PageError(
                f"port {args.port} cannot be used ({error.strerror}): leave out --port, and a free one is taken"
            ) from error
        threading.Thread(target=server.serve_forever, name="ui-page", daemon=True).start()
        follower.start()
        plans = JobPlans.of(client, args, follower.take_plans, server.is_open)
        plans.start()
        uses = HeldUses(
            SliceUseReader(client, args, args.namespace or ""), entries, follower.held, server.is_open
        )
        uses.start()
        # Until here Ctrl-C ends the command without waiting, because the API server may not answer.
        with stopped_by_signals() as stop:
            print(f"{server.address}\nThe page shows the cluster as it changes. Ctrl-C ends it.", flush=True)
            with browser.opened(server.address) if args.open else nullcontext(enter_result=True) as found:
                if not found:
                    print("no browser can be opened here: open that address yourself", flush=True)
                stop.wait()
            uses.close()
            plans.close()
            follower.close()
            server.close()
    return 0
