"""Judges allocations without knowing how they are found.

``violations`` says what is wrong with an answer to a problem (in the form of the recorded problems);
``has_solution`` tries everything there is, for problems small enough. Neither uses the allocator.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations, product
from typing import Any, NamedTuple

from dray.api.quantity import Quantity
from dray.cel.environment.devices import Device as Visible
from dray.cel.environment.devices import compile

Document = Mapping[str, Any]
Id = tuple[str, str, str]

_RESULTS_LIMIT = 32


class Known(NamedTuple):
    """A device that the node of a problem sees."""

    id: Id
    document: Document


class Problem:
    """A problem with its tables made."""

    def __init__(self, document: Document) -> None:
        self.document = document
        self.features = set(document.get("features") or ())
        self.claims: list[Document] = list(document.get("claims") or ())
        self.classes = {c["metadata"]["name"]: c for c in document.get("deviceClasses") or ()}
        self.taken: set[Id] = {
            (d["driver"], d["pool"], d["device"]) for d in document.get("allocatedDevices") or ()
        }
        self.consumed: dict[Id, dict[str, int]] = {}
        for entry in document.get("consumedCapacity") or ():
            totals = self.consumed.setdefault((entry["driver"], entry["pool"], entry["device"]), {})
            for name, amount in (entry.get("capacity") or {}).items():
                totals[name] = totals.get(name, 0) + Quantity.from_json(amount).nano
        self.in_use = set(self.taken) | set(self.consumed)
        for share in document.get("allocatedShares") or ():
            driver, pool, device, _ = share.split("/")
            self.in_use.add((driver, pool, device))
        self.devices: dict[Id, Known] = {}
        self.everywhere: dict[Id, Document] = {}  # also devices that only other nodes see
        self.counters: dict[tuple[str, str], dict[tuple[str, str], int]] = {}
        self._selected: dict[tuple[int, Id], bool] = {}
        self._read_slices(document)

    def _read_slices(self, document: Document) -> None:
        pools: dict[tuple[str, str], list[Document]] = {}
        for one in document.get("resourceSlices") or ():
            spec = one["spec"]
            pools.setdefault((spec["driver"], spec["pool"]["name"]), []).append(spec)
        for pool, specs in pools.items():
            newest = max(spec["pool"].get("generation", 0) for spec in specs)
            specs = [spec for spec in specs if spec["pool"].get("generation", 0) == newest]
            if any(spec["pool"].get("resourceSliceCount") != len(specs) for spec in specs):
                continue
            self.counters[pool] = {
                (s["name"], counter): Quantity.from_json(value["value"]).nano
                for spec in specs
                for s in spec.get("sharedCounters") or ()
                for counter, value in s["counters"].items()
            }
            for spec in specs:
                for device in spec.get("devices") or ():
                    id = (*pool, device["name"])
                    self.everywhere[id] = device
                    if self._here(device if spec.get("perDeviceNodeSelection") else spec):
                        self.devices[id] = Known(id, device)

    def _here(self, where: Document) -> bool:
        metadata = self.document["node"]["metadata"]
        if where.get("nodeName"):
            return bool(where["nodeName"] == metadata.get("name"))
        if where.get("allNodes"):
            return True
        labels = metadata.get("labels") or {}
        for term in (where.get("nodeSelector") or {}).get("nodeSelectorTerms") or ():
            expressions, fields = term.get("matchExpressions") or [], term.get("matchFields") or []
            met = [r["operator"] == "In" and labels.get(r["key"]) in r["values"] for r in expressions]
            met += [r["operator"] == "In" and metadata.get("name") in r["values"] for r in fields]
            if met and all(met):
                return True
        return False

    def selected(self, wants: Document, known: Known) -> bool:
        """Whether class and request select the device."""
        key = (id(wants), known.id)
        if key not in self._selected:
            self._selected[key] = self._select(wants, known)
        return self._selected[key]

    def _select(self, wants: Document, known: Known) -> bool:
        if known.document.get("bindingConditions") and not any(
            "BindingConditions" in f for f in self.features
        ):
            return False
        selectors = [
            *(self.classes[wants["deviceClassName"]]["spec"].get("selectors") or ()),
            *(wants.get("selectors") or ()),
        ]
        visible = Visible.of(known.id[0], known.document)
        return all(
            compile(
                s["cel"]["expression"],
                list_attributes="DRAListTypeAttributes" in self.features,
                consumable_capacity="DRAConsumableCapacity" in self.features,
                stored=True,
            ).matches(visible)
            for s in selectors
        )

    def shared(self, id: Id) -> bool:
        return "DRAConsumableCapacity" in self.features and bool(
            self.everywhere[id].get("allowMultipleAllocations")
        )


def violations(document: Document, results: Sequence[Document]) -> list[str]:
    """Everything that is wrong with one AllocationResult a claim."""
    return _judge(Problem(document), results)


def _judge(problem: Problem, results: Sequence[Document]) -> list[str]:
    found: list[str] = []
    exclusive: dict[Id, int] = {}
    used: list[tuple[Id, Document]] = []
    for number, (claim, result) in enumerate(zip(problem.claims, results, strict=True)):
        entries = (result.get("devices") or {}).get("results") or []
        if len(entries) > _RESULTS_LIMIT:
            found.append(f"claim {number}: more than {_RESULTS_LIMIT} devices")
        found += _requests(problem, number, claim, entries)
        found += _constraints(problem, number, claim, entries)
        within: set[Id] = set()
        for entry in entries:
            id = (entry["driver"], entry["pool"], entry["device"])
            if id not in problem.devices:
                found.append(f"claim {number}: no such device here: {id}")
                continue
            used.append((id, entry))
            if problem.shared(id):
                continue
            if id in within:
                found.append(f"claim {number}: {id} twice in one claim")
            within.add(id)
            if not entry.get("adminAccess"):
                exclusive[id] = exclusive.get(id, 0) + 1
                if id in problem.taken:
                    found.append(f"claim {number}: {id} is taken")
    found += [f"{id} allocated {times} times" for id, times in exclusive.items() if times > 1]
    found += _counters(problem, {id for id, _ in used})
    found += _capacity(problem, used)
    return found


def _wanted(claim: Document) -> Iterator[tuple[str, Document]]:
    for request in claim["spec"]["devices"].get("requests") or ():
        if request.get("firstAvailable"):
            for alternative in request["firstAvailable"]:
                yield f"{request['name']}/{alternative['name']}", alternative
        else:
            yield request["name"], request["exactly"]


def _requests(problem: Problem, number: int, claim: Document, entries: Sequence[Document]) -> Iterator[str]:
    wanted = dict(_wanted(claim))
    chosen: dict[str, set[str]] = {}
    for entry in entries:
        chosen.setdefault(entry["request"].partition("/")[0], set()).add(entry["request"])
        wants = wanted.get(entry["request"])
        known = problem.devices.get((entry["driver"], entry["pool"], entry["device"]))
        if wants is None or known is None:
            yield f"claim {number}: unknown request or device in {entry}"
            continue
        if not problem.selected(wants, known):
            yield f"claim {number}: {known.id} is not selected by {entry['request']}"
        if "DRADeviceTaints" in problem.features and not _tolerated(known.document, wants):
            yield f"claim {number}: {known.id} is tainted"
    for request in claim["spec"]["devices"].get("requests") or ():
        names = chosen.get(request["name"], set())
        if len(names) > 1:
            yield f"claim {number}: several alternatives of {request['name']}"
        for name in names:
            had = [e for e in entries if e["request"] == name]
            wants = wanted[name]
            if wants["allocationMode"] == "ExactCount" and len(had) != wants["count"]:
                yield f"claim {number}: {name} got {len(had)} devices"
            if len({(e["driver"], e["pool"], e["device"]) for e in had}) != len(had):
                yield f"claim {number}: {name} got a device twice"
            if wants["allocationMode"] == "All":
                missing = {id for id, known in problem.devices.items() if problem.selected(wants, known)} - {
                    (e["driver"], e["pool"], e["device"]) for e in had
                }
                missing = {id for id in missing if _could_serve(problem, id, wants)}
                if missing:
                    yield f"claim {number}: {name} did not get all devices: {missing}"
        if not names and all(
            w.get("count") != 0 for n, w in wanted.items() if n.partition("/")[0] == request["name"]
        ):
            yield f"claim {number}: {request['name']} got nothing"


def _could_serve(problem: Problem, id: Id, wants: Document) -> bool:
    """Whether a device offers what a request for all devices wants of its capacity."""
    offered = problem.everywhere[id].get("capacity") or {}
    asked = (wants.get("capacity") or {}).get("requests") or {}
    if any(name not in offered for name in asked):
        return False
    consumed = problem.consumed.get(id, {})
    for name, capacity in offered.items():
        amount = _consumption(asked.get(name), capacity)
        if amount is None or consumed.get(name, 0) + amount > Quantity.from_json(capacity["value"]).nano:
            return False
    return True


def _tolerated(device: Document, wants: Document) -> bool:
    def tolerates(toleration: Document, taint: Document) -> bool:
        return (
            toleration.get("effect") in (None, "", taint["effect"])
            and toleration.get("key") in (None, "", taint["key"])
            and (
                toleration.get("operator") == "Exists"
                or (toleration.get("value") or "") == (taint.get("value") or "")
            )
        )

    return all(
        any(tolerates(toleration, taint) for toleration in wants.get("tolerations") or ())
        for taint in device.get("taints") or ()
        if taint["effect"] in ("NoSchedule", "NoExecute")
    )


def _constraints(
    problem: Problem, number: int, claim: Document, entries: Sequence[Document]
) -> Iterator[str]:
    for position, constraint in enumerate(claim["spec"]["devices"].get("constraints") or ()):
        names = constraint.get("requests") or ()
        attribute = constraint.get("matchAttribute") or constraint["distinctAttribute"]
        sets = []
        for entry in entries:
            if names and entry["request"] not in names and entry["request"].partition("/")[0] not in names:
                continue
            id = (entry["driver"], entry["pool"], entry["device"])
            values = _attribute(problem, id, attribute)
            if values is None:
                yield f"claim {number}: constraint {position}: {id} lacks {attribute}"
            else:
                sets.append(values)
        if "matchAttribute" in constraint:
            if len(sets) > 1 and not frozenset.intersection(*sets):
                yield f"claim {number}: constraint {position}: nothing in common in {attribute}"
        elif sum(map(len, sets)) != len(frozenset().union(*sets)):
            yield f"claim {number}: constraint {position}: {attribute} not distinct"


def _attribute(problem: Problem, id: Id, name: str) -> frozenset[tuple[str, Any]] | None:
    attributes = problem.everywhere[id].get("attributes") or {}
    domain, _, bare = name.partition("/")
    value = attributes.get(name) or (attributes.get(bare) if domain == id[0] else None)
    if value is None:
        return None
    if "DRAListTypeAttributes" in problem.features:
        for plural in ("ints", "bools", "strings", "versions"):
            if value.get(plural):
                return frozenset((plural[:-1], v) for v in value[plural])
    return frozenset((kind, v) for kind, v in value.items() if kind in ("int", "bool", "string", "version"))


def _counters(problem: Problem, used: set[Id]) -> Iterator[str]:
    for pool, left in problem.counters.items():
        totals = dict(left)
        for id in {i for i in (used | problem.in_use) if i[:2] == pool and i in problem.everywhere}:
            for draw in problem.everywhere[id].get("consumesCounters") or ():
                for counter, value in draw["counters"].items():
                    totals[draw["counterSet"], counter] -= Quantity.from_json(value["value"]).nano
        drawing = any(problem.everywhere[id].get("consumesCounters") for id in used if id[:2] == pool)
        yield from (f"{pool}: counter {c} overdrawn" for c, n in totals.items() if n < 0 and drawing)


def _capacity(problem: Problem, used: Sequence[tuple[Id, Document]]) -> Iterator[str]:
    totals: dict[Id, dict[str, int]] = {}
    claims = {
        (number, name): wants for number, claim in enumerate(problem.claims) for name, wants in _wanted(claim)
    }
    asked = {name: (w.get("capacity") or {}).get("requests") or {} for (_, name), w in claims.items()}
    for id, entry in used:
        if not problem.shared(id):
            continue
        consumed = entry.get("consumedCapacity") or {}
        sums = totals.setdefault(id, dict(problem.consumed.get(id, {})))
        for name in problem.everywhere[id].get("capacity") or {}:
            if name not in consumed:
                yield f"{id}: consumption of {name} not recorded"
                continue
            sums[name] = sums.get(name, 0) + Quantity.from_json(consumed[name]).nano
        if len(problem.claims) == 1:
            for name, amount in asked.get(entry["request"], {}).items():
                if Quantity.from_json(consumed.get(name, "0")) < Quantity.from_json(amount):
                    yield f"{id}: less than asked of {name}"
    for id, sums in totals.items():
        for name, capacity in (problem.everywhere[id].get("capacity") or {}).items():
            if sums.get(name, 0) > Quantity.from_json(capacity["value"]).nano:
                yield f"{id}: capacity {name} exceeded"


def _consumption(asked: Any, capacity: Document) -> int | None:
    """What is consumed of a capacity, in billionths; None if its policy has no room for the amount."""
    policy = capacity.get("requestPolicy") or {}
    value = Quantity.from_json(capacity["value"]).nano
    if asked is None:
        return Quantity.from_json(policy["default"]).nano if policy.get("default") is not None else value
    amount = Quantity.from_json(asked).nano
    if valid := policy.get("validValues"):
        return min((v for v in (Quantity.from_json(v).nano for v in valid) if v >= amount), default=None)
    if span := policy.get("validRange"):
        low = Quantity.from_json(span["min"]).nano
        if amount < low:
            amount = low
        if span.get("step") is not None:
            step = Quantity.from_json(span["step"]).nano
            amount = low + -((low - amount) // step) * step
        if span.get("max") is not None and amount > Quantity.from_json(span["max"]).nano:
            return None
    return amount


def has_solution(document: Document) -> bool:
    """Try every combination of devices. Only for problems of a few devices and requests."""
    problem = Problem(document)
    slots = [
        (number, request)
        for number, claim in enumerate(problem.claims)
        for request in claim["spec"]["devices"].get("requests") or ()
    ]
    options = [list(_options(problem, request)) for _, request in slots]
    for combination in product(*options):
        results: list[dict[str, Any]] = [{"devices": {"results": []}} for _ in problem.claims]
        for (number, _), entries in zip(slots, combination, strict=True):
            results[number]["devices"]["results"] += entries
        if not _judge(problem, results):
            return True
    return False


def _options(problem: Problem, request: Document) -> Iterator[list[dict[str, Any]]]:
    several = [(f"{request['name']}/{a['name']}", a) for a in request.get("firstAvailable") or ()]
    for name, wants in several or [(request["name"], request["exactly"])]:
        devices = [
            id
            for id, known in problem.devices.items()
            if problem.selected(wants, known) and _could_serve_alone(problem, id, wants)
        ]
        count = len(devices) if wants["allocationMode"] == "All" else wants["count"]
        if wants["allocationMode"] == "All" and not devices:
            continue
        for chosen in combinations(devices, count):
            yield [_entry(problem, name, wants, id) for id in chosen]


def _could_serve_alone(problem: Problem, id: Id, wants: Document) -> bool:
    if "DRAConsumableCapacity" not in problem.features:
        return True
    return _could_serve(problem, id, wants)


def _entry(problem: Problem, name: str, wants: Document, id: Id) -> dict[str, Any]:
    entry: dict[str, Any] = {"request": name, "driver": id[0], "pool": id[1], "device": id[2]}
    if wants.get("adminAccess"):
        entry["adminAccess"] = True
    if problem.shared(id):
        asked = (wants.get("capacity") or {}).get("requests") or {}
        entry["consumedCapacity"] = {
            capacity: str(Quantity(_consumption(asked.get(capacity), c) or 0, -9))
            for capacity, c in (problem.everywhere[id].get("capacity") or {}).items()
        }
    return entry
