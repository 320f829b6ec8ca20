"""AWS in memory, under the shipped adapters: for unit tests and the fault explorer."""
