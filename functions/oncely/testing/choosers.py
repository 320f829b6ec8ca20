"""Choosers of the injection at each call: from a script, or random."""

import random
from collections import deque
from collections.abc import Callable, Iterable

from oncely.testing.script import CallSite, Injection, Script


class ScriptedChooser:
    """A chooser that follows a script, and then records the alternatives."""

    def __init__(self, script: Script) -> None:
        self._waiting: dict[CallSite, deque[str]] = {}
        for injection in script:
            self._waiting.setdefault(injection.call_site, deque()).append(injection.action)
        self.remaining = len(script)
        self.alternatives: list[Injection] = []
        self.on_new_state: Callable[[tuple[str, ...]], None] | None = None
        self.is_last_level = False  # its alternatives would exceed the limits
        self._begun: set[str] = set()

    def choose(self, call_site: CallSite, options: Callable[[], Iterable[str]]) -> str | None:
        """Return the action of the script at this call site. Returns None if it has none."""
        if self.remaining == 0:
            if self.on_new_state is not None and self._compares_state(call_site):
                offered = tuple(options())
                self.on_new_state(offered)
                self.alternatives += [Injection(call_site, action) for action in offered]
            return None
        actions = self._waiting.get(call_site)
        if not actions or actions[0] not in options():
            return None
        self.remaining -= 1
        return actions.popleft()

    def _compares_state(self, call_site: CallSite) -> bool:
        """Compare states at every call, or on the last level only where a process begins.

        Without alternatives, a known state is met early enough there. Digesting the state at every
        call takes as long as the calls themselves.
        """
        is_first_call = call_site.process not in self._begun
        self._begun.add(call_site.process)
        return is_first_call or not self.is_last_level


class RandomChooser:
    """A chooser that draws a random schedule after a fixed prefix."""

    def __init__(
        self, seed: int, *, injections: int, rate: float, fixed_prefix: Script = ()
    ) -> None:
        self._fixed_prefix = ScriptedChooser(fixed_prefix)
        self._random = random.Random(seed)  # noqa: S311  # nothing here is a secret
        self._remaining = injections
        self._rate = rate
        self.script: list[Injection] = list(fixed_prefix)

    def choose(self, call_site: CallSite, options: Callable[[], Iterable[str]]) -> str | None:
        """Return a random option at the configured rate, otherwise None."""
        if self._fixed_prefix.remaining:
            return self._fixed_prefix.choose(call_site, options)
        if self._remaining == 0 or self._random.random() >= self._rate:
            return None
        offered = list(options())
        if not offered:
            return None
        action = self._random.choice(offered)
        self._remaining -= 1
        self.script.append(Injection(call_site, action))
        return action
