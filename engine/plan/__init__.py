"""From bound statements to what is read and how: pure functions on frozen nodes."""
