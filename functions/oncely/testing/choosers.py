"""Who decides what happens at each point: a script, or chance."""

import random
from collections import deque
from collections.abc import Callable, Iterable

from oncely.testing.script import Change, Place, Script


class Follow:
    """Plays a script; from its end on, tells what else could have happened."""

    def __init__(self, script: Script) -> None:
        self._waiting: dict[Place, deque[str]] = {}
        for change in script:
            self._waiting.setdefault(change.place, deque()).append(change.what)
        self.left = len(script)
        self.possible: list[Change] = []
        self.unseen: Callable[[tuple[str, ...]], None] | None = None

    def choose(self, place: Place, options: Callable[[], Iterable[str]]) -> str | None:
        """What the script says about this place."""
        if self.left == 0:
            if self.unseen is not None:
                offered = tuple(options())
                self.unseen(offered)
                self.possible += [Change(place, what) for what in offered]
            return None
        wanted = self._waiting.get(place)
        if not wanted or wanted[0] not in options():
            return None
        self.left -= 1
        return wanted.popleft()


class Chance:
    """Makes up a schedule as it goes, once what is given has happened."""

    def __init__(self, seed: int, *, changes: int, rate: float, given: Script = ()) -> None:
        self._given = Follow(given)
        self._random = random.Random(seed)  # noqa: S311  # nothing here is a secret
        self._left = changes
        self._rate = rate
        self.script: list[Change] = list(given)

    def choose(self, place: Place, options: Callable[[], Iterable[str]]) -> str | None:
        """Mostly nothing; now and then anything."""
        if self._given.left:
            return self._given.choose(place, options)
        if self._left == 0 or self._random.random() >= self._rate:
            return None
        offered = list(options())
        if not offered:
            return None
        what = self._random.choice(offered)
        self._left -= 1
        self.script.append(Change(place, what))
        return what
