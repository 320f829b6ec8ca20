"""Tools for people; never shipped to Lambda."""
