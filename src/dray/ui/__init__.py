"""The dashboard: a cluster's devices, claims and pods as a page that changes with them, and as metrics.

``cluster`` is the model of ``explain``, kept up to date by ``informing`` object by object. ``rows`` says what lists and
the map show of each object, ``board`` which rows have changed, ``stream`` sends them as server-sent events. ``details``
and ``trying`` answer the pages of single objects, ``guard`` decides who is answered, ``server`` puts these together.
``page`` has what the browser runs.
"""
