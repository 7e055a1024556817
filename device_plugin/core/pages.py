"""The names of the documentation's pages in messages: their titles, or their addresses if a build has set SITE."""

SITE = ""
"""The address of a release's published pages, without a slash at its end; empty if they are not published."""


def named(title: str, name: str, site: str = SITE) -> str:
    """The address of the page docs/`name`.md at `site`; if `site` is empty, words with the page's title."""
    return f"{site}/{name}.html" if site else f'page "{title}" of the documentation'


COMMANDS = named("Commands", "kubectl")
EVENTS = named("Events", "reference/events")
INSTALL = named("Install", "install")
ISOLATION = named("Isolation", "isolation")
JOBS = named("Jobs in a queue", "jobs")
OPERATIONS = named("Operations", "operations")
QUOTA = named("Quotas", "quota")
