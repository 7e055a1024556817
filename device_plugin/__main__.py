"""`vgpu`: one command for both services and for the people who run them."""

import sys

from device_plugin.wiring.commands import main

if __name__ == "__main__":
    sys.exit(main())
