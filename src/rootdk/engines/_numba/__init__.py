"""What Numba compiles; imported by a function, and only where Numba is installed."""
