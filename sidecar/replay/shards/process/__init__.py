"""Workers as processes: the pool, what is kept from them, and the callables they call."""
