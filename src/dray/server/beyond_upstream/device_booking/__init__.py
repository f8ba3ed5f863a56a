"""Device booking: an allocation that takes what other claims have is refused, whichever API server it comes through.

Upstream has nothing like it: there, schedulers keep out of each other's way as far as they can see. Here a claim's
allocation and the booking records of its devices are one transaction of the store. Two writers that book the same
device write the same record, and the store lets one of them through. An API server that emulates a release books
nothing, as upstream.

``records`` has what is stored, ``pools`` what the resource slices say, ``bookings`` decides, ``repair`` compares claims
and records.
"""
