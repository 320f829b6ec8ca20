"""What operators and support agents do: search, repair, restore."""
