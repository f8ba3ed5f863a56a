// Everything that a person has chosen is in the address: #/view?search&filters&sorting&namespace.

let parsed = { hash: null, view: "", parameters: null };

// Asked for every link of a page, so it is parsed once for each address. The parameters are not to be changed.
export function current() {
  const { hash } = location;
  if (parsed.hash !== hash) {
    const [path, query] = hash.replace(/^#\/?/, "").split("?");
    parsed = { hash, view: path || "overview", parameters: new URLSearchParams(query || "") };
  }
  return parsed;
}

export function get(name, fallback = "") {
  return current().parameters.get(name) ?? fallback;
}

// The address of a view, with the namespace that is selected.
export function to(view, parameters = {}) {
  const query = new URLSearchParams();
  const namespace = parameters.ns ?? get("ns");
  for (const [name, value] of Object.entries({ ...parameters, ns: namespace })) {
    if (value !== "" && value !== undefined && value !== null) query.set(name, value);
  }
  const text = query.toString();
  return `#/${view}${text ? `?${text}` : ""}`;
}

export function toObject(kind, id) {
  return to(kind, { id });
}

// Change parameters of the present view; what is typed letter by letter replaces the address instead of adding one.
export function set(changes, { replace = false } = {}) {
  const { view, parameters: present } = current();
  const parameters = new URLSearchParams(present);
  for (const [name, value] of Object.entries(changes)) {
    if (value === "" || value === undefined || value === null) parameters.delete(name);
    else parameters.set(name, value);
  }
  const text = parameters.toString();
  go(`#/${view}${text ? `?${text}` : ""}`, { replace });
}

export function go(hash, { replace = false } = {}) {
  if (location.hash === hash) return;
  if (replace) {
    history.replaceState(null, "", hash);
    window.dispatchEvent(new HashChangeEvent("hashchange"));
  } else {
    location.hash = hash;
  }
}
