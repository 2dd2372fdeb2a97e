"""The framework-free part of every frontend: the graph, and the walks over it."""
