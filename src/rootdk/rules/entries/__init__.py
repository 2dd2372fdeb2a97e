"""RDK2xx: the sizes of the entries of query and key."""
