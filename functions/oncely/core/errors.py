"""Every error that Oncely raises deliberately, grouped by who has to act.

OncelyError
├── InvalidInputError             the producer must fix it: reject the message with the reason
│   ├── InvalidMessageError
│   ├── InvalidKeyError
│   ├── InvalidMoneyError
│   └── InvalidRequestError   an operator's, at the admin page or the CLI
├── NotConfiguredError        fix the deployment: nothing was sent, redeliver the message
├── UnavailableError          AWS did not respond: redeliver the message, and read the row later
├── GateClosedError           the provider's gate is closed: this request was not sent
├── UnreadableRowError        a newer version wrote it: leave it, and deploy that version again
└── InvariantError            a bug: stop
    └── IllegalTransitionError

What a *provider* answers is never an exception; see effect_outcomes.py. For a producer's `run`,
only InvalidInputError proves that no job was started. It raises JobPending for all others.
"""


class OncelyError(Exception):
    """The root of the tree."""


class InvalidInputError(OncelyError):
    """Input that no retry can make valid."""


class InvalidMessageError(InvalidInputError):
    """A message that does not match its job type."""


class InvalidKeyError(InvalidInputError):
    """A business id that cannot be part of a job key."""


class InvalidMoneyError(InvalidInputError):
    """An amount that is not a whole, positive number of minor units of a currency."""


class InvalidRequestError(InvalidInputError):
    """An operator's request that is invalid or incomplete."""


class NotConfiguredError(OncelyError):
    """A table, queue, secret or variable of the deployment is missing or not usable."""


class UnavailableError(OncelyError):
    """AWS did not respond, or the result of a write is not known."""


class GateClosedError(OncelyError):
    """A request that the provider's gate held back. Says nothing about earlier requests."""


class UnreadableRowError(OncelyError):
    """A row that this version cannot read, such as one of a newer version."""


class InvariantError(OncelyError):
    """A bug: the rest of the code makes this impossible."""


class IllegalTransitionError(InvariantError):
    """The life cycle does not allow this event in this status."""

    def __init__(self, status: str | None, event: str) -> None:
        super().__init__(f"a job that is {status or 'absent'} cannot take the event {event}")
        self.status = status
        self.event = event
