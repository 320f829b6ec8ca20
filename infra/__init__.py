"""The stack: what Oncely deploys, and the same stack on one machine."""
