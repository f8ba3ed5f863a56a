"""What runs containers: ``simulated`` (nothing runs), ``process`` (children of this host), ``cri`` (containerd, CRI-O).

``interface`` says what the node agent expects of each; ``logs`` reads the log files that all of them write.
"""
