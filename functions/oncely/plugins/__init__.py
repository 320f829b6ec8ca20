"""What a provider declares, and how its requests are sent."""
