"""The command line, the prompt, loading and the parts of the demo."""
