"""The shop's own function, for way 3."""

import oncely
from shop_jobs.voucher_issue import VoucherIssue

handler = oncely.worker(jobs=[VoucherIssue])
