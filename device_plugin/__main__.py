"""Runs the command `vgpu`, for the services and for people."""

import sys

from device_plugin.wiring.commands import main

if __name__ == "__main__":
    sys.exit(main())
