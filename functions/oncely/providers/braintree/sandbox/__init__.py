"""Braintree's XML API in the local sandbox."""
