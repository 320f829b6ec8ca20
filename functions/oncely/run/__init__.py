"""Processes queue messages: precheck, claim, execute once, end in one transaction."""
