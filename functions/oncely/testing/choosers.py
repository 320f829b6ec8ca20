"""Who decides what happens at each point: a script, or chance."""

import random
from collections import deque
from collections.abc import Callable, Iterable

from oncely.testing.script import CallSite, Injection, Script


class ScriptedChooser:
    """Plays a script; from its end on, tells what else could have happened."""

    def __init__(self, script: Script) -> None:
        self._waiting: dict[CallSite, deque[str]] = {}
        for change in script:
            self._waiting.setdefault(change.call_site, deque()).append(change.action)
        self.remaining = len(script)
        self.alternatives: list[Injection] = []
        self.on_new_state: Callable[[tuple[str, ...]], None] | None = None

    def choose(self, call_site: CallSite, options: Callable[[], Iterable[str]]) -> str | None:
        """What the script says about this place."""
        if self.remaining == 0:
            if self.on_new_state is not None:
                offered = tuple(options())
                self.on_new_state(offered)
                self.alternatives += [Injection(call_site, what) for what in offered]
            return None
        wanted = self._waiting.get(call_site)
        if not wanted or wanted[0] not in options():
            return None
        self.remaining -= 1
        return wanted.popleft()


class RandomChooser:
    """Makes up a schedule as it goes, once what is given has happened."""

    def __init__(
        self, seed: int, *, injections: int, rate: float, fixed_prefix: Script = ()
    ) -> None:
        self._fixed_prefix = ScriptedChooser(fixed_prefix)
        self._random = random.Random(seed)  # noqa: S311  # nothing here is a secret
        self._remaining = injections
        self._rate = rate
        self.script: list[Injection] = list(fixed_prefix)

    def choose(self, call_site: CallSite, options: Callable[[], Iterable[str]]) -> str | None:
        """Mostly nothing; now and then anything."""
        if self._fixed_prefix.remaining:
            return self._fixed_prefix.choose(call_site, options)
        if self._remaining == 0 or self._random.random() >= self._rate:
            return None
        offered = list(options())
        if not offered:
            return None
        what = self._random.choice(offered)
        self._remaining -= 1
        self.script.append(Injection(call_site, what))
        return what
