"""The plugins that can be named in a configuration: an explicit table, handed around, never global.

A name belongs to one plugin for good; aliases share that namespace. Order is the order of registration.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator

from moorage.framework.plugin import Plugin


class RegistryError(ValueError):
    """A class that cannot be registered; the message is one line and says what to change."""


class Registry:
    """Names and aliases of plugin classes."""

    def __init__(self, classes: Iterable[type[Plugin]] = ()) -> None:
        self._by_name: dict[str, type[Plugin]] = {}
        self._canonical: dict[str, str] = {}
        for cls in classes:
            self.register(cls)

    def register(self, cls: type[Plugin]) -> None:
        """Add a class under its name and aliases; all of them must be free. The same class twice counts once."""
        name, aliases = _names_of(cls)
        if self._by_name.get(name) is cls:
            return
        for taken in (name, *aliases):
            owner = self._canonical.get(taken)
            if owner is not None:
                raise RegistryError(
                    f"the plugin name {taken} is taken by {_describe(self._by_name[owner])}; rename one"
                )
        self._by_name[name] = cls
        self._canonical.update(dict.fromkeys((name, *aliases), name))

    def get(self, name: str) -> type[Plugin] | None:
        """The class of this name or alias, None where there is none."""
        canonical = self._canonical.get(name)
        return None if canonical is None else self._by_name[canonical]

    def canonical(self, name: str) -> str:
        """The plugin's own name for an alias; any other text as it is."""
        return self._canonical.get(name, name)

    def names(self) -> tuple[str, ...]:
        """The plugins' own names, in order of registration."""
        return tuple(self._by_name)

    def suggestion(self, name: str, also: Iterable[str] = ()) -> str | None:
        """The known name (or one of `also`) that was probably meant."""
        return closest(name, [*self._canonical, *also])

    def __contains__(self, name: object) -> bool:
        return name in self._canonical

    def __iter__(self) -> Iterator[type[Plugin]]:
        return iter(self._by_name.values())

    def __len__(self) -> int:
        return len(self._by_name)


def closest(name: str, known: Iterable[str]) -> str | None:
    """The known name nearest to this one, whatever its case; None where nothing is near."""
    by_lower = {candidate.lower(): candidate for candidate in sorted(known)}
    found = difflib.get_close_matches(name.lower(), by_lower, n=1, cutoff=0.7)
    return by_lower[found[0]] if found else None


def _names_of(cls: type[Plugin]) -> tuple[str, tuple[str, ...]]:
    if not (isinstance(cls, type) and issubclass(cls, Plugin)):
        raise RegistryError(f"{_describe(cls)} is not a class derived from moorage.framework.plugin.Plugin")
    name = getattr(cls, "name", None)
    if not isinstance(name, str) or name in ("", "*"):
        raise RegistryError(f"{_describe(cls)} has no name; set the class attribute name = ...")
    return name, tuple(cls.aliases)


def _describe(thing: object) -> str:
    if isinstance(thing, type):
        return f"{thing.__module__}.{thing.__qualname__}"
    return f"an object of type {type(thing).__name__}"
