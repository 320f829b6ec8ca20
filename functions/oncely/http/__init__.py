"""HTTP clients for providers: deadlines, fresh connections, rate limits."""
