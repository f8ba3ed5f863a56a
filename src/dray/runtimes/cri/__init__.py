"""Containers through the Container Runtime Interface: containerd or CRI-O, and their streaming server."""
