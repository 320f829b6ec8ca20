"""The same stack on one machine: the engine, the deployment and the provider sandbox."""
