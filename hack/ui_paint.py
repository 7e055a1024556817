"""Measure how soon a change is on the page of `vgpu ui`: from the server's message to the painted frame.

`hack/ui-paint` serves the page over a generated cluster of 5,000 nodes with 8 cards each to Chromium, changes nodes,
half of them in sight, and prints the median, the 95th percentile and the longest of the times, and the longest task of
the page's thread, while it loads and while it changes. It fails if a task takes more than 100 ms.
"""

import argparse
import random
import statistics
import sys
import threading

from playwright.sync_api import Page

from device_plugin.cli.ui.entries import PageEntries
from device_plugin.cli.ui.server import PageServer
from hack import page_data
from hack.chromium import chromium

CHANGES, MOST_TASK_MS = 200, 100.0
# Nodes in sight at the page's beginning.
IN_SIGHT = 8
# Tasks of 50 ms and longer are reported by the browser.
WATCH = """
window.painted = []; window.tasks = [];
document.addEventListener("painted", (event) => window.painted.push(event.detail));
new PerformanceObserver((list) => list.getEntries().forEach((each) => window.tasks.push(each.duration)))
    .observe({ type: "longtask", buffered: true });
"""
# The page's own rules forbid what Playwright's wait_for_function does.
UNTIL_PAINTED = """
(before) => new Promise((done) => {
    const look = () => (window.painted.length > before ? done() : setTimeout(look, 2));
    look();
})
"""


def main() -> int:
    """Measure, and print what was found."""
    parser = argparse.ArgumentParser(
        prog="hack/ui-paint", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--nodes", type=int, default=5000, metavar="N")
    parser.add_argument("--changes", type=int, default=CHANGES, metavar="N")
    parser.add_argument("--width", type=int, default=2000, metavar="PIXELS")
    parser.add_argument(
        "--picture", metavar="FILE", help="instead take the picture of docs/ui.md, of 60 nodes"
    )
    args = parser.parse_args()
    if args.picture:
        args.nodes = 60
    entries = PageEntries()
    nodes = dict(page_data.fill(entries, args.nodes))
    server = PageServer(entries, {})
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        with chromium() as browser:
            page = browser.new_page(viewport={"width": args.width, "height": 1200})
            page.add_init_script(WATCH)
            page.goto(server.address)
            page.get_by_text(f"{args.nodes:,} nodes, ").wait_for()
            if args.picture:
                return picture(page, args.picture)
            loading = longest(page)
            times = changed(page, entries, nodes, args.changes)
            changing = longest(page)
    finally:
        server.close()
    quantiles = statistics.quantiles(times, n=20)
    print(
        f"{len(times)} changes of {args.nodes} nodes: from message to painted frame median"
        f" {statistics.median(times):.1f} ms, p95 {quantiles[18]:.1f} ms, longest {max(times):.1f} ms;"
        f" longest task while loading {told(loading)}, while changing {told(changing)}"
    )
    return int(max(loading, changing) > MOST_TASK_MS)


def picture(page: Page, file: str) -> int:
    """Take a picture of the page with a card open."""
    page.set_viewport_size({"width": 1640, "height": 960})
    page.locator(".row").first.locator(".card").nth(4).click()
    page.mouse.move(0, 0)
    page.evaluate("scrollTo(0, 0)")
    page.wait_for_timeout(400)
    page.screenshot(path=file)
    return 0


def changed(page: Page, entries: PageEntries, nodes: dict[str, page_data.Row], changes: int) -> list[float]:
    """Change one node after another, each when the one before is painted; the times in ms."""
    rng = random.Random(2)
    for done in range(changes):
        number = rng.randint(1, min(len(nodes), IN_SIGHT) if done % 2 else len(nodes))
        name = f"gpu-{number:04}"
        before = nodes[name]
        while nodes[name] == before:
            nodes[name] = page_data.node(rng, f"{number:04x}", 8)
        entries.put("node", {name: nodes[name]})
        page.evaluate(UNTIL_PAINTED, done)
    found: list[float] = page.evaluate("window.painted")
    return found


def longest(page: Page) -> float:
    """The longest task since the last call, in ms; 0 if none took 50 ms."""
    page.wait_for_timeout(400)
    found: float = page.evaluate("Math.max(0, ...window.tasks.splice(0))")
    page.evaluate("window.painted.splice(0)")
    return found


def told(task: float) -> str:
    """A task's time; the browser reports only those of 50 ms and more."""
    return f"{task:.0f} ms" if task else "below 50 ms"


if __name__ == "__main__":
    sys.exit(main())
