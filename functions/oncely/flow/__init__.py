"""Flow control: rates, circuit breakers and pauses."""
