"""Who calls: what a caller presents, checked, becomes an `engine.access.principal.Principal`."""
