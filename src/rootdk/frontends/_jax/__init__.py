"""JAX: the jaxpr of a function, run equation by equation."""
