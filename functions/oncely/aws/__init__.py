"""The ports on AWS: DynamoDB, SQS, S3, SNS, EventBridge, Step Functions."""
