"""`vgpu uncordon CARD`: the card gets new slices again.

    vgpu uncordon GPU-1122334455000001
    vgpu uncordon gpu-1/0000:19:00.0

It also works for a card that its node does not show any more.
"""

import argparse

from device_plugin.cli import cordon
from device_plugin.cli.access import caller


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `vgpu uncordon`."""
    cordon.add_card(parser)


def run(args: argparse.Namespace) -> int:
    """End the cordon of the card, and print the result; returns 0.

    Raises CardError, CordonError, ApiError, EndpointError.
    """
    with caller.connected(args) as client:
        print(cordon.write(client, cordon.found(client, args.card), None))
    return 0
