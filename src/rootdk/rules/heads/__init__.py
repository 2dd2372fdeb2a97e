"""RDK5xx: which head reads which, and which axis holds the heads."""
