"""Admission policies: rules that users write as objects, in CEL; they check requests or change them.

``sources`` keeps the policies with their bindings, ``params`` finds their parameters, ``validating`` and ``mutating``
are the two plugins.
"""
