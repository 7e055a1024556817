"""The cluster's PriorityClasses: the priority of a waiting Job is read from them, because it has no pods to show it."""

from collections.abc import Callable, Iterable, Mapping

from device_plugin.core.jobs.spec import NamedPriorityClass, PriorityClass

# The name of the class of pods that name none.
DEFAULT = ""


class Priorities:
    """Holds the PriorityClasses by name. `changed` is called after each change; one thread changes them."""

    def __init__(self, changed: Callable[[], None]) -> None:
        self._changed = changed
        self._classes: dict[str, NamedPriorityClass] = {}
        self.listed = False
        self.by_name: Mapping[str, PriorityClass] = {}
        """The classes by name; a new mapping after each change. The default class has an empty name."""

    def sync(self, classes: Iterable[NamedPriorityClass]) -> None:
        """Record a list of all classes."""
        self._classes = {each.name: each for each in classes}
        self._renew()
        self.listed = True

    def see(self, found: NamedPriorityClass) -> None:
        """Record a new or changed class."""
        self._classes[found.name] = found
        self._renew()

    def forget(self, found: NamedPriorityClass) -> None:
        """Remove a class that is gone; existing pods keep its value."""
        if self._classes.pop(found.name, None) is not None:
            self._renew()

    def _renew(self) -> None:
        found = {name: each.priority for name, each in self._classes.items()}
        # Kubernetes takes the lowest where several classes are the default.
        defaults = sorted((each.priority.value, each.name) for each in self._classes.values() if each.default)
        if defaults:
            found[DEFAULT] = found[defaults[0][1]]
        if found != self.by_name:
            self.by_name = found
            self._changed()
