"""Way 2: Oncely in a stack of its own. Every version of the wheel can synthesize it."""

from aws_cdk import App

from oncely_cdk import OncelySettings, OncelyStack
from shop_jobs.voucher_issue import VoucherIssue

STACK = "ShopJobs-local"
# Short, so that a job whose worker was stopped is looked up soon.
SETTINGS = OncelySettings(name="local", worker_timeout_seconds=30)


def add_own_stack(app: App) -> None:
    """Add the stack."""
    OncelyStack(app, STACK, jobs=(VoucherIssue,), settings=SETTINGS)


if __name__ == "__main__":
    cdk_app = App()
    add_own_stack(cdk_app)
    cdk_app.synth()
