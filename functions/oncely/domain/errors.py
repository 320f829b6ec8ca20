"""Everything Oncely raises on purpose, split by who has to act.

OncelyError
├── InvalidInputError             the sender must mend it: reject the message with the reason
│   ├── InvalidMessageError
│   ├── InvalidKeyError
│   ├── InvalidMoneyError
│   └── InvalidRequestError   a person's, at the page or the command
├── NotConfiguredError        the deployer must mend it: nothing was sent, hand the message back
├── UnavailableError          AWS did not answer: the row tells later, hand the message back
├── UnreadableRowError        a newer version wrote it: leave it alone, and deploy that again
└── InvariantError            a bug: stop and page
    └── IllegalTransitionError

What a *provider* answers is never an exception; see answers.py.
"""


class OncelyError(Exception):
    """The root of the tree."""


class InvalidInputError(OncelyError):
    """What was sent can never be worked, however often it is tried."""


class InvalidMessageError(InvalidInputError):
    """A message that is not the JSON its job type describes."""


class InvalidKeyError(InvalidInputError):
    """A business id that cannot be part of a job key."""


class InvalidMoneyError(InvalidInputError):
    """An amount that is not a whole, positive number of minor units of a currency."""


class InvalidRequestError(InvalidInputError):
    """What a person asked for cannot be understood, or says too little."""


class NotConfiguredError(OncelyError):
    """A table, queue, secret or variable that the deployment should have provided is missing."""


class UnavailableError(OncelyError):
    """AWS could not be reached, or a write's fate could not be learned in time."""


class UnreadableRowError(OncelyError):
    """A row that this deployment does not understand, such as one of a newer version's."""


class InvariantError(OncelyError):
    """Something that the rest of the code makes impossible has happened."""


class IllegalTransitionError(InvariantError):
    """An event that the life cycle does not allow in this status."""

    def __init__(self, status: str | None, event: str) -> None:
        super().__init__(f"a job that is {status or 'absent'} cannot take the event {event}")
        self.status = status
        self.event = event
