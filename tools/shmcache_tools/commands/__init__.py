"""One module a sub-command, each with a ``command``; loaded only when asked for."""
