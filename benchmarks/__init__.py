"""What dtrainer measures itself against: each module is a command that prints a table."""
