"""The tables of an audit's working file, and what differs as views of them."""

from typing import Final

# What the provider has for a job, and the difference that this is. `{}` is charge or refund. A job
# that is open decides later. Without a readable row and history, each entry is reported alone.
VERDICTS: Final = (
    #  job         at the provider  difference
    ("finished", "nothing", "job_without_{}"),
    ("finished", "failed", "{}_failed_later"),
    ("finished", "several", "several_{}s"),
    ("failed", "each", "{}_of_failed_job"),
    ("failed", "several", "several_{}s"),
    ("cancelled", "each", "{}_of_failed_job"),
    ("cancelled", "several", "several_{}s"),
    ("open", "several", "several_{}s"),
    ("missing", "each", "{}_without_job"),
)

# `entry` is the provider's side, `job` is ours. A charge is the job's own if the job saved its
# charge id, or else its reference. `looked_up` is NULL, `done` or `other period`.
SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS period (since TEXT, until TEXT);
CREATE TABLE IF NOT EXISTS progress (name TEXT PRIMARY KEY, value TEXT);
CREATE TABLE IF NOT EXISTS verdict (
    kind TEXT, state TEXT, found TEXT, difference TEXT, PRIMARY KEY (kind, state, found)
) WITHOUT ROWID;

CREATE TABLE IF NOT EXISTS entry (
    provider TEXT, kind TEXT, entry_id TEXT, ref TEXT, label TEXT, ours INTEGER, state TEXT,
    amount INTEGER, currency TEXT, at TEXT, note TEXT, job_read INTEGER DEFAULT 0,
    PRIMARY KEY (provider, kind, entry_id)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS entry_of_job ON entry (provider, label);

CREATE TABLE IF NOT EXISTS job (
    job_key TEXT PRIMARY KEY, kind TEXT, position TEXT, provider TEXT, label TEXT, subject TEXT,
    state TEXT, at TEXT, ref TEXT, charge_id TEXT, expects_entry INTEGER,
    amount INTEGER, currency TEXT, checked INTEGER DEFAULT 0, looked_up TEXT
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS job_of_entry ON job (provider, label);
CREATE INDEX IF NOT EXISTS job_of_subject ON job (subject, kind);

-- Every charge and refund of ours that moved money, with the state of its job.
CREATE VIEW IF NOT EXISTS moved AS SELECT
    entry.provider, entry.kind, entry.entry_id, entry.label, entry.ref AS entry_ref, entry.note,
    entry.amount AS their_amount, entry.currency AS their_currency, entry.at,
    coalesce(job.state, 'missing') AS state, job.job_key, job.subject, job.expects_entry,
    job.checked, job.looked_up, job.ref, job.charge_id, job.amount, job.currency,
    coalesce(entry.entry_id = job.charge_id, job.ref IN (entry.ref, entry.entry_id), 0) AS is_own
FROM entry LEFT JOIN job
    ON job.provider = entry.provider AND job.label = entry.label AND job.kind = entry.kind
WHERE entry.ours AND entry.state = 'moved' AND entry.kind <> 'dispute';

CREATE VIEW IF NOT EXISTS orphan AS SELECT * FROM moved WHERE kind = 'charge' AND state = 'missing';

-- Every entry that is a job's own, also one that moved no money. Any charge of the account may have
-- paid an order that a job found paid.
CREATE VIEW IF NOT EXISTS own AS SELECT job.job_key, entry.state
FROM job JOIN entry ON entry.provider = job.provider AND entry.kind = job.kind
    AND entry.entry_id = iif(job.kind = 'charge', job.charge_id, job.ref)
    AND (entry.ours OR NOT job.expects_entry)
UNION ALL SELECT job.job_key, entry.state
FROM job JOIN entry ON entry.provider = job.provider AND entry.label = job.label
    AND entry.kind = job.kind AND entry.ours
    AND (job.kind = 'refund' OR (job.charge_id IS NULL AND job.ref IN (entry.ref, entry.entry_id)));

-- Without an entry that moved money. An order that is paid without a charge id names nothing.
CREATE VIEW IF NOT EXISTS unmatched AS SELECT job.*,
    iif(EXISTS (SELECT 1 FROM own WHERE own.job_key = job.job_key), 'failed', 'nothing') AS found
FROM job, period
WHERE job.state = 'finished' AND at >= since AND at < until AND (expects_entry OR charge_id <> '')
    AND coalesce(looked_up, '') <> 'other period' AND NOT EXISTS (
        SELECT 1 FROM own WHERE own.job_key = job.job_key AND own.state = 'moved'
    );

-- The charges of each order: those listed, and those that its jobs saved and that are older.
CREATE VIEW IF NOT EXISTS order_charge AS
SELECT subject, job_key, provider, entry_id AS id, their_amount AS amount,
    their_currency AS currency, at
FROM moved WHERE kind = 'charge' AND state <> 'missing'
UNION SELECT subject, job_key, provider, coalesce(charge_id, ref), amount, currency, at FROM moved
WHERE kind = 'charge' AND state = 'finished' AND expects_entry AND coalesce(looked_up, '') <> 'done'
    AND NOT EXISTS (
        SELECT 1 FROM own WHERE own.job_key = moved.job_key AND own.state = 'moved'
    );

-- A refund of a provider that voids what has not settled: no entry of its own, and no charge.
CREATE VIEW IF NOT EXISTS void AS SELECT charge.job_key, min(refund.job_key) AS refund_key
FROM unmatched AS charge JOIN job AS refund
    ON refund.kind = 'refund' AND refund.provider = charge.provider AND refund.state = 'finished'
    AND refund.subject = charge.subject AND charge.charge_id IN (refund.charge_id, refund.ref)
    AND refund.amount = charge.amount AND refund.currency = charge.currency
WHERE charge.kind = 'charge' AND charge.found = 'failed' AND NOT EXISTS (
    SELECT 1 FROM entry WHERE entry.provider = refund.provider AND entry.label = refund.label
        AND entry.kind = 'refund' AND entry.entry_id <> charge.charge_id AND entry.state = 'moved'
) GROUP BY charge.job_key;

CREATE VIEW IF NOT EXISTS difference AS
SELECT difference AS kind, provider, entry_id AS ids, their_amount, their_currency, at,
    coalesce(job_key, label) AS job_key, subject, amount, currency, note
FROM moved JOIN verdict USING (kind, state) WHERE found = 'each'
UNION ALL SELECT difference, provider, group_concat(DISTINCT entry_id), sum(their_amount),
    min(their_currency), max(at), job_key, subject, amount, currency, NULL
FROM moved JOIN verdict USING (kind, state) WHERE found = 'several' AND kind = 'refund'
GROUP BY job_key HAVING count(DISTINCT entry_id) > 1
UNION ALL SELECT difference, min(provider), group_concat(DISTINCT id),
    iif(min(currency) = max(currency), sum(order_charge.amount), NULL), min(currency), max(at),
    min(job_key), subject, NULL, NULL, NULL
FROM order_charge JOIN verdict ON verdict.kind = 'charge' AND state = 'open' AND found = 'several'
GROUP BY subject HAVING count(DISTINCT id) > 1
UNION ALL SELECT
    iif(found = 'nothing' AND kind = 'charge' AND charge_id <> '', 'charge_id_unknown', difference),
    provider, coalesce(iif(kind = 'charge', charge_id, NULL), ref, charge_id, ''), NULL, NULL, at,
    unmatched.job_key, subject, amount, currency, 'voided by ' || refund_key
FROM unmatched JOIN verdict USING (kind, state, found) LEFT JOIN void USING (job_key)
UNION ALL SELECT iif(currency = their_currency, 'amount_differs', 'currency_differs'), provider,
    entry_id, their_amount, their_currency, at, job_key, subject, amount, currency, NULL
FROM moved WHERE state = 'finished' AND (is_own OR kind = 'refund')
    AND (amount, currency) <> (their_amount, their_currency)
UNION ALL SELECT 'dispute', entry.provider, entry_id, entry.amount, entry.currency, entry.at,
    coalesce(job_key, entry.label), subject, NULL, NULL, note
FROM entry LEFT JOIN job ON job.provider = entry.provider AND job.label = entry.label
WHERE entry.kind = 'dispute' AND ours;

-- What differs at the end: the view reads everything, so it is read once.
CREATE TABLE IF NOT EXISTS report AS SELECT * FROM difference WHERE 0;

-- The history lags behind these jobs.
CREATE VIEW IF NOT EXISTS suspect AS SELECT job_key FROM job WHERE NOT checked AND job_key IN (
    SELECT job_key FROM difference WHERE note IS NULL
    UNION SELECT job_key FROM moved WHERE state = 'open' AND kind = 'charge'
);

CREATE VIEW IF NOT EXISTS sums AS
SELECT provider, currency, iif(ours, kind || 's', 'not_ours') AS name, amount FROM entry
WHERE (ours OR kind = 'charge') AND state = 'moved'
    AND NOT (kind = 'refund' AND entry_id IS ref)  -- a void: its charge is in no sum either
UNION ALL SELECT provider, their_currency, 'unresolved', their_amount FROM moved
WHERE kind = 'charge' AND state = 'open'
UNION ALL SELECT provider, currency, 'jobs', amount FROM moved
WHERE kind = 'charge' AND state = 'finished' AND is_own AND amount IS NOT NULL
UNION ALL SELECT provider, currency, 'jobs', amount FROM unmatched
WHERE kind = 'charge' AND expects_entry AND amount IS NOT NULL
    AND job_key NOT IN (SELECT job_key FROM void);
"""

# The time of a job is that of its first line in its status.
ADD_JOB: Final = """
INSERT INTO job (job_key, kind, position, provider, label, subject, state, at, ref, charge_id,
    expects_entry, amount, currency)
VALUES (:job_key, :kind, :position, :provider, :label, :subject, :state, :at, :ref, :charge_id,
    :expects_entry, :amount, :currency)
ON CONFLICT (job_key) DO UPDATE SET position = excluded.position, provider = excluded.provider,
    label = excluded.label, subject = excluded.subject, state = excluded.state,
    ref = excluded.ref, charge_id = excluded.charge_id,
    expects_entry = excluded.expects_entry, amount = excluded.amount,
    currency = excluded.currency,
    at = iif(job.state = excluded.state, job.at, excluded.at)
WHERE excluded.position > job.position
"""
