"""One Flight client."""
