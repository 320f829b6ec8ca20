"""What a person needs to talk to the stack on this machine, ready to be copied."""

from oncely_local.engine import REGION
from oncely_local.sample_users import SAMPLE_PASSWORD, SAMPLE_USERS
from oncely_local.stack import LocalStack


def connection_info(stack: LocalStack, *, order: str) -> str:
    """Addresses, and commands that ask for the payment of an order and find its job."""
    outputs = stack.outputs
    body = f'{{"job": "payment.charge", "v": 1, "order_id": "{order}"}}'
    row = f'{{"job_key": {{"S": "payment.charge:order_{order}"}}}}'
    users = " or ".join(f"{name} ({group})" for group, name in SAMPLE_USERS.items())
    queues = [f"  {name:<22}{outputs[name]}" for name in outputs if name.endswith("QueueUrl")]
    # Version 1 of the command line does not ask the variable where SQS is.
    aws = f"aws --endpoint-url {stack.engine.url}"
    access = f"AWS_DEFAULT_REGION={REGION} AWS_ACCESS_KEY_ID=test AWS_SECRET_ACCESS_KEY=test"
    return "\n".join(
        (
            "Oncely is up on this machine.",
            f"  endpoint      {stack.engine.url}",
            f"  providers     {stack.sandbox.url}  (their books: /_sandbox/ledger)",
            f"  admin page    {outputs['AdminUrl']}",
            f"                sign in as {users}, password {SAMPLE_PASSWORD}",
            f"  engine's log  {stack.log}",
            "",
            *queues,
            "",
            "In another terminal:",
            f"  export AWS_ENDPOINT_URL={stack.engine.url} {access}",
            "Send a message:",
            f"  {aws} sqs send-message --queue-url {outputs['PaymentsQueueUrl']} \\",
            f"    --message-body '{body}'",
            f"  .venv/bin/oncely send --local '{body}'",
            "Find it:",
            f"  {aws} dynamodb get-item --table-name {outputs['JobsTableName']} \\",
            f"    --key '{row}'",
            f"  .venv/bin/oncely find --local {order}",
            "",
            "r + Enter, or `make local ARGS=redeploy`, deploys a change. Ctrl-C ends everything.",
        )
    )
