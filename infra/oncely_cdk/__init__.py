"""CDK constructs that deploy Oncely: `OncelyStack` and what it is made of."""
