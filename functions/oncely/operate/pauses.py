"""Pauses and resumes a job type, a queue or a provider, and lists what is on hold."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from oncely.contracts.job import providers_of
from oncely.core.effect_outcomes import Json
from oncely.core.errors import InvalidRequestError, UnavailableError
from oncely.core.job_row import operator_actor, operator_name
from oncely.core.text import format_time, single_line
from oncely.gates.gate import (
    PROVIDER_PREFIX,
    QUEUE_PREFIX,
    GateSnapshot,
    Pause,
    PauseAction,
    PauseEntry,
)

if TYPE_CHECKING:
    from oncely.app import App

MAX_REASON_LENGTH: Final = 300
# Each retry lost a race with another operator.
_MAX_CAS_RETRIES: Final = 3


@dataclass(frozen=True, kw_only=True)
class PauseChange:
    """What a command changed. Nothing if it was already so."""

    pause: Pause
    is_changed: bool


@dataclass(frozen=True)
class PauseSwitch:
    """Pauses and resumes for operators. Effects stop within 10 seconds, lookups never."""

    app: "App"

    def snapshot(self) -> GateSnapshot:
        """Read all gates and pauses."""
        return self.app.ports.gate_table.read()

    def targets(self) -> tuple[str, ...]:
        """What can be paused: job types, queues and providers."""
        types = {one.job_type for one in self.app.registry}
        queues = {f"{QUEUE_PREFIX}{one.queue}" for one in self.app.registry}
        providers = {f"{PROVIDER_PREFIX}{one.name}" for one in providers_of(self.app.registry)}
        return (*sorted(types), *sorted(queues), *sorted(providers))

    def change(self, name: str, action: PauseAction, *, actor: str, reason: str) -> PauseChange:
        """Pause or resume. Raises InvalidRequestError if nothing has this name."""
        snapshot = self.app.ports.gate_table.read()
        target = self._find(name, snapshot)
        text = single_line(reason.strip(), MAX_REASON_LENGTH)
        if action is PauseAction.PAUSE and not text:
            raise InvalidRequestError("enter a reason for the pause: other operators see it")
        for _ in range(_MAX_CAS_RETRIES):
            known = snapshot.pauses.get(target, Pause(target=target))
            if (known.current is not None) is (action is PauseAction.PAUSE):
                return PauseChange(pause=known, is_changed=False)
            entry = PauseEntry(
                at=self.app.ports.clock.now(),
                action=action,
                actor=operator_actor(actor),
                reason=text,
            )
            after = known.with_entry(entry)
            if self.app.ports.gate_table.write_pause(after):
                return PauseChange(pause=after, is_changed=True)
            snapshot = self.app.ports.gate_table.read()
        raise UnavailableError(
            f"{target} is being paused or resumed by others at the same time: try again"
        )

    def _find(self, name: str, snapshot: GateSnapshot) -> str:
        # A pause outlives its job type, and can still be resumed.
        paused = [one.target for one in snapshot.pauses.values() if one.current is not None]
        targets = dict.fromkeys((*self.targets(), *paused))
        found = [one for one in targets if name in {one, one.partition(":")[2]}]
        if len(found) > 1:
            raise InvalidRequestError(f"{name!r} has several meanings: use {' or '.join(found)}")
        if not found:
            raise InvalidRequestError(
                f"there is no job type, queue or provider {name!r}; use one of "
                f"{', '.join(self.targets())}"
            )
        return found[0]


def gates_to_json(snapshot: GateSnapshot) -> dict[str, Json]:
    """What is held now and by whom, and the audit trail, for the admin page and `--json`."""
    pauses = [one for _, one in sorted(snapshot.pauses.items())]
    entries = [(entry, one.target) for one in pauses for entry in one.entries]
    return {
        "paused": [
            entry_to_json(one.current, one.target) for one in pauses if one.current is not None
        ],
        "open": [
            {"gate": name, "since": format_time(state.opened_at)}
            for name, state in sorted(snapshot.gates.items())
            if state.opened_at is not None
        ],
        "history": [
            entry_to_json(entry, target)
            for entry, target in sorted(entries, key=lambda one: one[0].at, reverse=True)
        ],
    }


def entry_to_json(entry: PauseEntry, target: str) -> dict[str, Json]:
    """One action of an operator."""
    return {
        "target": target,
        "action": str(entry.action),
        "at": format_time(entry.at),
        "actor": operator_name(entry.actor),
        "reason": entry.reason,
    }
