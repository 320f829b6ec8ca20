"""The support view: what operators change."""
