"""Publishes ended jobs, and archives the history of every job."""
