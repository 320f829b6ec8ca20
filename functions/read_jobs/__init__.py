"""The support view: the page, and what it reads."""
