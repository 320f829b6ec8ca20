"""A mailer in memory. It passes the same conformance suite as SES."""

import threading
from collections import deque
from dataclasses import dataclass, field
from datetime import timedelta

from oncely.domain.effect_outcomes import Ambiguous, Declined, EffectOutcome, NotSent, Succeeded
from oncely.domain.keys import IdempotencyKey, JobKey
from oncely.providers.interfaces import Email
from oncely.testing.provider_fault import ProviderFault

# A fault of one call; an outcome, such as a limited rate, is returned unchanged.
MailFault = ProviderFault | NotSent | Declined


@dataclass
class FakeMailer:
    """A mailer whose `sent` is the ledger that tests compare with."""

    sent: list[Email] = field(default_factory=list)
    calls: list[IdempotencyKey] = field(default_factory=list)
    tags: list[str] = field(default_factory=list)
    sent_tags: list[str] = field(default_factory=list)  # of each email in `sent`
    job_keys: list[JobKey] = field(default_factory=list)
    event_wait: timedelta | None = None
    faults: deque[MailFault] = field(default_factory=deque)
    lock: threading.RLock = field(default_factory=threading.RLock)

    def fail_next(self, *faults: MailFault) -> None:
        self.faults.extend(faults)

    def send(
        self, email: Email, *, idempotency_key: IdempotencyKey, job_key: JobKey, tag: str
    ) -> EffectOutcome:
        with self.lock:
            self.calls.append(idempotency_key)
            self.tags.append(tag)
            self.job_keys.append(job_key)
            match self.faults.popleft() if self.faults else None:
                case None:
                    return self._sent(email)
                case (
                    ProviderFault.TIMEOUT_BEFORE
                    | ProviderFault.SERVER_ERROR
                    | ProviderFault.SERVER_ERROR_UNSTORED
                ):
                    return Ambiguous("timeout")
                case (
                    ProviderFault.TIMEOUT_AFTER
                    | ProviderFault.SERVER_ERROR_AFTER
                    | ProviderFault.ARRIVES_LATE
                ):
                    self._sent(email)
                    return Ambiguous("timeout")
                case ProviderFault.REFUSED_CONNECTION:
                    return NotSent("connection refused")
                case ProviderFault.DECLINED:
                    return Declined("the email was declined", code="MessageRejected")
                case ProviderFault.UNAUTHORIZED:
                    return NotSent("our credentials are rejected", credentials_rejected=True)
                case outcome:
                    return outcome

    def _sent(self, email: Email) -> Succeeded:
        self.sent.append(email)
        self.sent_tags.append(self.tags[-1])
        ref = f"mail_{len(self.sent)}"
        return Succeeded(f"sent to {email.to} as {ref}", ref, {"message_id": ref})
