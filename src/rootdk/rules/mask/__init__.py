"""RDK4xx: which keys a query may see."""
