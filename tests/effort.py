"""The seed and the effort of random tests.

`make test` has the same random states in every run, so that its outcome depends on the code alone. `hack/nightly
random` has others each time, and many times as many; a state that breaks a promise becomes a test of its own.
"""

import os

SEED = os.environ.get("VGPU_TEST_SEED", "")
"""A text from which each test's random numbers come, together with the test's name."""

TIMES = int(os.environ.get("VGPU_TEST_TIMES", "1"))
"""A factor of the number of random states, events or seeds of a test."""
