"""A job that reads a table without a schema, which its stack must give."""

from shop_jobs.voucher_issue import VoucherIssue


class CustomerVoucher(VoucherIssue):
    """The same voucher, for a customer."""

    reads = ("customers",)  # type: ignore[assignment]  # another table than its base
