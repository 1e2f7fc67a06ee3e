"""Pure values and arrays. stdlib and numpy only: no I/O, clock, randomness, logging, asyncio or global state."""
