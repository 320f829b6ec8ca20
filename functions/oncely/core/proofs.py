"""Proofs: for a provider that cannot be asked, asking means reading the events it delivered.

An event proves the effect of one claim, by a tag that only this deployment, job and claim have. It
may end a job that waits for an outcome. Against anything else that is recorded, it is evidence, and
an operator decides.
"""

import hmac

from oncely.core.decisions import escalate
from oncely.core.effect_outcomes import Anomalous, Succeeded
from oncely.core.job_row import Decision, JobRow
from oncely.core.keys import claim_tag
from oncely.core.lifecycle import IN_REVIEW, Event, Status
from oncely.core.text import reason_line, single_line


def claim_of_tag(job: JobRow, tag: str, key: str) -> int | None:
    """The claim of this job that the tag identifies. Returns None if it is forged or another job's.

    `key`: of the deployment's tags. Without one, anybody could make them.
    """
    for fence in range(job.fence if key else 0, 0, -1):
        own = claim_tag(job.job_key, deployment=job.deployment, fence=fence, key=key)
        if hmac.compare_digest(own.encode(), tag.encode(errors="replace")):
            return fence
    return None


def proved_outcome(job: JobRow) -> Succeeded | Anomalous | None:
    """What the saved events prove. Returns None if they prove nothing."""
    if not (proofs := job.proofs):
        return None
    refs = sorted({str(proof.ref) for proof in proofs})
    if len(refs) > 1:
        return Anomalous(f"events prove that it was sent {len(refs)} times: {', '.join(refs)}")
    [ref], provider = refs, proofs[0].provider
    earlier = sorted({proof.fence or 0 for proof in proofs} - {job.fence})
    if earlier:
        reason = f"an event of {provider} proves that claim {earlier[0]} sent it as {ref}"
        return Anomalous(f"{reason}, and claim {job.fence} may have sent it again", ref)
    return Succeeded(f"an event of {provider} proves that it was sent as {ref}", ref)


def on_proof(row: JobRow) -> Decision | None:
    """Escalate a job whose row says that nothing was sent, or something else.

    Returns None if the events agree with the row, or the row waits for them. The decision is made
    once: an operator who has seen it is not asked again by another delivery.
    """
    outcome = proved_outcome(row)
    if outcome is None or _agrees(row):
        return None
    if row.allows(Event.CLAIM):
        decision = escalate(f"it was to be sent, but {outcome.reason}")
    elif row.allows(Event.CONTRADICT):
        reason = f"it is {row.status}, but {outcome.reason}"
        changes = {"expires_at": None, "last_error": single_line(reason)}
        decision = Decision(event=Event.CONTRADICT, reason=reason, changes=changes, alert=True)
    else:
        return None
    known = (entry.reason for entry in row.evidence if entry.event is decision.event)
    return None if reason_line(decision.reason) in known else decision


def ends_review(row: JobRow) -> bool:
    """Whether a proof may end this review: it needs review only because its outcome was unknown."""
    moves = [entry for entry in row.evidence if entry.from_status != entry.to_status]
    if row.status not in IN_REVIEW or not moves:
        return False
    last = moves[-1]
    was_looked_up = isinstance(last.from_status, Status) and last.from_status.allows(Event.RECHECK)
    return last.event is Event.ESCALATE and was_looked_up


def _agrees(row: JobRow) -> bool:
    refs = {proof.ref for proof in row.proofs}
    named = refs == {row.provider_ref}
    marked = row.provider_ref is None and row.marked_by is not None and len(refs) == 1
    return row.status.is_finished and (named or marked)
