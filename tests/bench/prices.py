"""List prices of us-east-1 without free tier, and what is assumed where nothing can be counted."""

from typing import Final

# DynamoDB, Lambda and CloudWatch from copies of their pricing pages or reviews of them; the others
# (table class IA, recovery, S3, SQS, EventBridge, Step Functions, KMS, secrets) from memory.
AS_OF: Final = "November 2026"

# US dollars for a million of each.
WRITE_UNIT: Final = 0.625  # DynamoDB on demand, table class Standard
READ_UNIT: Final = 0.125
WRITE_UNIT_IA: Final = 0.78  # table class Standard-Infrequent Access
READ_UNIT_IA: Final = 0.155
S3_PUT: Final = 5.0
S3_LIST: Final = 5.0
SQS_REQUEST: Final = 0.4
EVENT: Final = 1.0
INVOCATION: Final = 0.2
TRANSITION: Final = 25.0
SCHEDULE: Final = 1.0
TRACE: Final = 5.0
METRIC_QUERY: Final = 10.0  # GetMetricData, for each metric
API_REQUEST: Final = 1.0  # HTTP API
GIGABYTE_SECOND: Final = 13.3334  # Lambda on ARM

# US dollars for a gigabyte, and for one of these a month.
LOG_GIGABYTE: Final = 0.5
STORED_GIGABYTE: Final = 0.25  # DynamoDB Standard
STORED_GIGABYTE_IA: Final = 0.10
BACKUP_GIGABYTE: Final = 0.20  # point-in-time recovery
S3_GIGABYTE: Final = 0.023
ALARM_METRIC: Final = 0.10
METRIC: Final = 0.30
DASHBOARD: Final = 3.0
KEY: Final = 1.0
SECRET: Final = 0.40

MONTH_SECONDS: Final = 30 * 24 * 3600
DAYS_IN_A_MONTH: Final = 30.4
GIGABYTE: Final = 10**9

# Assumed. X-Ray records one invocation a second and 5 % of the others.
TRACED: Final = 0.05
# Lambda's own lines for an invocation (START, END, REPORT), and what CloudWatch adds to each line.
PLATFORM_LINES: Final = 3
PLATFORM_BYTES: Final = 400
LINE_BYTES: Final = 26
# Lambda keeps five pollers on a queue whose concurrency is limited; a long poll takes 20 seconds.
POLLERS: Final = 5
POLL_SECONDS: Final = 20
# Publishing ended jobs ten at a time, in a function with 256 MB.
PUBLISH_SECONDS: Final = 0.06
PUBLISH_BATCH: Final = 10
PUBLISH_GIGABYTES: Final = 0.25
# An idle sweep, and asking a provider about one job.
SWEEP_SECONDS: Final = 0.2
SWEEP_GIGABYTES: Final = 0.25
RESOLVE_SECONDS: Final = 0.4
# Compressed, one change of a job in the archive; kept as long as the row.
HISTORY_LINE_BYTES: Final = 200
# A refresh of the overview: three requests, and at most four counts of 1,000 entries and 100 rows.
PAGE_REQUESTS: Final = 3
PAGE_REQUEST_SECONDS: Final = 0.1
PAGE_READ_UNITS: Final = 220
PAGE_LOG_KILOBYTES: Final = 6
PAGE_QUEUES: Final = 5
