"""The local stack: the engine, its deployment, the demo, and `make local`."""
