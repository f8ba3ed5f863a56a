"""The controllers for CertificateSigningRequests (approver, signer, cleaner) and the publisher of the root CA certificate."""
