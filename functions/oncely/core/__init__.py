"""What the promise rests on: the row, its life cycle, decisions and the store."""
