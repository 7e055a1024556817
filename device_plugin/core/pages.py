"""The pages of the documentation, as messages name them: by title, or by address where a build has set SITE."""

SITE = ""
"""The address under which a release's pages are published, without a slash at its end; empty: nowhere."""


def named(title: str, name: str, site: str = SITE) -> str:
    """The name of the page docs/`name`.md in a message; its first line is `title`."""
    return f"{site}/{name}.html" if site else f'page "{title}" of the documentation'


COMMANDS = named("Commands", "kubectl")
EVENTS = named("Events", "reference/events")
INSTALL = named("Install", "install")
ISOLATION = named("Isolation", "isolation")
JOBS = named("Jobs in a queue", "jobs")
OPERATIONS = named("Operations", "operations")
QUOTA = named("Quotas", "quota")
REQUESTS = named("Requests", "requests")
SETTINGS = named("Settings", "reference/settings")
