"""The tables of an audit's working file, and what differs as views of them."""

from typing import Final

# `entry` is the provider's side, `job` is ours. A charge is the job's own if the job saved its
# reference or its charge id.
SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS period (since TEXT, until TEXT);
CREATE TABLE IF NOT EXISTS progress (name TEXT PRIMARY KEY, value TEXT);

CREATE TABLE IF NOT EXISTS entry (
    provider TEXT, kind TEXT, entry_id TEXT, ref TEXT, label TEXT, ours INTEGER,
    amount INTEGER, currency TEXT, at TEXT, has_job INTEGER, PRIMARY KEY (provider, kind, entry_id)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS entry_of_job ON entry (provider, label);

CREATE TABLE IF NOT EXISTS job (
    job_key TEXT PRIMARY KEY, kind TEXT, position TEXT, provider TEXT, label TEXT, subject TEXT,
    finished INTEGER, ended INTEGER, at TEXT, ref TEXT, charge_id TEXT, expects_entry INTEGER,
    amount INTEGER, currency TEXT, checked INTEGER DEFAULT 0, looked_up INTEGER DEFAULT 0
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS job_of_entry ON job (provider, label);

CREATE VIEW IF NOT EXISTS charge AS SELECT * FROM entry WHERE kind = 'charge' AND ours;

CREATE VIEW IF NOT EXISTS pair AS SELECT
    charge.provider, charge.entry_id, charge.amount AS their_amount,
    charge.currency AS their_currency, charge.at, job.job_key, job.subject, job.label, job.finished,
    job.ended, job.expects_entry, job.checked, job.ref, job.charge_id, job.amount, job.currency,
    coalesce(charge.ref = job.ref OR charge.entry_id = job.charge_id, 0) AS is_own
FROM charge JOIN job ON job.provider = charge.provider AND job.label = charge.label;

-- Our refunds, and the jobs that made them.
CREATE VIEW IF NOT EXISTS refund_pair AS SELECT
    entry.provider, entry_id, entry.amount AS their_amount, entry.currency AS their_currency,
    entry.at, job_key, subject, job.label, finished, checked, job.amount, job.currency
FROM entry JOIN job ON job.provider = entry.provider AND job.label = entry.label
    AND job.kind = entry.kind
WHERE entry.kind = 'refund' AND ours;

CREATE VIEW IF NOT EXISTS orphan AS SELECT * FROM charge WHERE NOT EXISTS (
    SELECT 1 FROM job WHERE job.provider = charge.provider AND job.label = charge.label
);

CREATE VIEW IF NOT EXISTS unmatched AS SELECT job.* FROM job, period
WHERE finished AND expects_entry AND at >= since AND at < until AND NOT EXISTS (
    SELECT 1 FROM pair WHERE pair.provider = job.provider AND pair.label = job.label AND is_own
) AND NOT EXISTS (
    SELECT 1 FROM refund_pair
    WHERE refund_pair.provider = job.provider AND refund_pair.label = job.label
);

CREATE VIEW IF NOT EXISTS suspect AS SELECT job_key FROM pair
WHERE NOT checked AND NOT (finished AND is_own AND (
    amount IS NULL OR (amount, currency) = (their_amount, their_currency)))
UNION SELECT job_key FROM refund_pair
WHERE NOT checked AND (amount, currency) <> (their_amount, their_currency)
UNION SELECT job_key FROM unmatched WHERE NOT checked;

-- The charges of each order: those listed, and those that its jobs saved and that are older.
CREATE VIEW IF NOT EXISTS order_charge AS
SELECT subject, job_key, provider, entry_id AS id, their_amount AS amount,
    their_currency AS currency, at
FROM pair
UNION SELECT subject, job_key, provider, coalesce(charge_id, ref), amount, currency, at FROM pair
WHERE finished AND expects_entry AND NOT EXISTS (
    SELECT 1 FROM pair AS own
    WHERE own.provider = pair.provider AND own.label = pair.label AND own.is_own
);

CREATE VIEW IF NOT EXISTS difference AS
SELECT 'charge_without_job' AS kind, provider, entry_id AS ids, amount AS their_amount,
    currency AS their_currency, at, label AS job_key, NULL AS subject, NULL AS amount,
    NULL AS currency
FROM orphan
UNION ALL SELECT 'charge_of_failed_job', provider, entry_id, their_amount, their_currency, at,
    job_key, subject, amount, currency
FROM pair WHERE ended AND NOT finished
UNION ALL SELECT 'several_charges', min(provider), group_concat(DISTINCT id),
    iif(min(currency) = max(currency), sum(amount), NULL), min(currency), max(at), min(job_key),
    subject, NULL, NULL
FROM order_charge GROUP BY subject HAVING count(DISTINCT id) > 1
UNION ALL SELECT 'job_without_' || kind, provider, coalesce(ref, charge_id, ''), NULL, NULL, at,
    job_key, subject, amount, currency
FROM unmatched
UNION ALL SELECT 'amount_differs', provider, entry_id, their_amount, their_currency, at, job_key,
    subject, amount, currency
FROM pair WHERE finished AND is_own AND currency = their_currency AND amount <> their_amount
UNION ALL SELECT 'currency_differs', provider, entry_id, their_amount, their_currency, at, job_key,
    subject, amount, currency
FROM pair WHERE finished AND is_own AND currency <> their_currency
UNION ALL SELECT iif(currency = their_currency, 'amount_differs', 'currency_differs'), provider,
    entry_id, their_amount, their_currency, at, job_key, subject, amount, currency
FROM refund_pair WHERE finished AND (amount, currency) <> (their_amount, their_currency)
UNION ALL SELECT iif(entry.kind = 'refund', 'refund_without_job', 'dispute'), entry.provider,
    entry_id, entry.amount, entry.currency, entry.at, coalesce(job_key, entry.label), subject,
    NULL, NULL
FROM entry LEFT JOIN job ON job.provider = entry.provider AND job.label = entry.label
WHERE entry.kind <> 'charge' AND ours AND NOT coalesce(has_job, 0);

CREATE VIEW IF NOT EXISTS sums AS
SELECT provider, currency, iif(ours, kind || 's', 'not_ours') AS name, amount FROM entry
WHERE ours OR kind = 'charge'
UNION ALL SELECT provider, their_currency, 'unresolved', their_amount FROM pair WHERE NOT ended
UNION ALL SELECT provider, currency, 'jobs', amount FROM pair
WHERE finished AND is_own AND amount IS NOT NULL
UNION ALL SELECT provider, currency, 'jobs', amount FROM unmatched
WHERE kind = 'charge' AND amount IS NOT NULL;
"""

# The time of a job is that of its first line in its status.
ADD_JOB: Final = """
INSERT INTO job (job_key, kind, position, provider, label, subject, finished, ended, at, ref,
    charge_id, expects_entry, amount, currency)
VALUES (:job_key, :kind, :position, :provider, :label, :subject, :finished, :ended, :at, :ref,
    :charge_id, :expects_entry, :amount, :currency)
ON CONFLICT (job_key) DO UPDATE SET position = excluded.position, provider = excluded.provider,
    label = excluded.label, subject = excluded.subject, finished = excluded.finished,
    ended = excluded.ended, ref = excluded.ref, charge_id = excluded.charge_id,
    expects_entry = excluded.expects_entry, amount = excluded.amount,
    currency = excluded.currency,
    at = iif(job.finished = excluded.finished AND job.ended = excluded.ended, job.at, excluded.at)
WHERE excluded.position > job.position
"""
