"""Multiple choice: RACE, and data of one's own."""
