"""How one host answers a statement over several: where it runs, what travels, and what is made of it."""
