"""From a graph with arrays beside it to attention sites: shared by every frontend."""
