"""Amazon SES."""
