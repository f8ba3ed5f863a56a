"""What tests share: waiting, documents, servers in memory and as processes, real kubectl and etcd."""
