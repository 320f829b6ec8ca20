"""The only place that knows boto3, Stripe or HTTP."""
