"""What operators are alerted to, within a budget."""
