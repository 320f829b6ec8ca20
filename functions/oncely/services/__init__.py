"""The use cases: each takes ports and gives an outcome."""
