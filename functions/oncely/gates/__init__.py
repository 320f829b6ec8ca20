"""Rates, circuits and pauses of providers. A gate can only delay."""
