"""A charge that may be scheduled: the shipped one honors no time."""

from datetime import timedelta

from oncely.jobs.payment_charge import PaymentCharge


class ScheduledCharge(PaymentCharge):
    schedule_limit = timedelta(days=120)
