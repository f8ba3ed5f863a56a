#!/bin/sh
# Makes an authority for etcd and one certificate for each machine: certificates.sh DIRECTORY ADDRESS...
# Copy DIRECTORY/ca.crt and DIRECTORY/ADDRESS/* to /etc/dray/etcd of the machine with that address. Keep ca.key elsewhere.
set -eu
directory=$1
shift
umask 077
mkdir -p "$directory"
cd "$directory"
[ -e ca.key ] || openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 3650 \
    -subj /CN=etcd-ca -keyout ca.key -out ca.crt 2>/dev/null
for address in "$@"; do
    mkdir -p "$address"
    openssl req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj "/CN=etcd-$address" \
        -keyout "$address/etcd.key" -out "$address/etcd.csr" 2>/dev/null
    printf 'subjectAltName=IP:%s,IP:127.0.0.1\nextendedKeyUsage=serverAuth,clientAuth\n' "$address" > "$address/extensions"
    openssl x509 -req -in "$address/etcd.csr" -CA ca.crt -CAkey ca.key -CAcreateserial -days 825 \
        -extfile "$address/extensions" -out "$address/etcd.crt" 2>/dev/null
    rm "$address/etcd.csr" "$address/extensions"
done
