// Devices, claims, pods, classes, nodes, pools and slices as tables.

import { h } from "./dom.js";
import { devices, devicesOf, sortable, store } from "./store.js";
import { get, set, to, toObject } from "./router.js";
import { age, chip, link, mark, noDevices, nothing, plural, stateBar, stateName } from "./parts.js";
import { reveal, sorted, table } from "./table.js";

const dim = (text) => h("span", { class: "dim" }, text);
const several = (items, draw) => items.length ? [draw(items[0]), items.length > 1 ? dim(` +${items.length - 1}`) : null] : dim("–");
const total = (counts) => counts.reduce((sum, count) => sum + count, 0);

function countStates(list) {
  const counts = store.hello.states.map(() => 0);
  for (const device of list) counts[device.state]++;
  return counts;
}

// By node: its devices, in one pass over all pools.
function byNode() {
  const found = new Map();
  for (const device of devices()) {
    const list = found.get(device.node);
    if (list) list.push(device);
    else found.set(device.node, [device]);
  }
  return found;
}

const text = (...parts) => parts.join(" ").toLowerCase();
const namespaced = (row) => !get("ns") || row.id.startsWith(`${get("ns")}/`);
const created = { name: "age", title: "Age", width: "5rem", cell: (row) => age(row.created), sort: (row) => -Date.parse(row.created) || 0 };
const local = (row, id) => (id.startsWith(`${row.id.split("/")[0]}/`) ? id.slice(id.indexOf("/") + 1) : id); // the namespace is the row's
const placed = (id) => id.slice(id.indexOf("/") + 1); // without its driver
const named = (title, kind) => ({ name: "name", title, width: "minmax(12rem, 2fr)", cell: (row) => link(kind, row.id), sort: (row) => sortable(row.id) });

export const LISTS = {
  devices: {
    label: "device", kind: "device",
    rows: () => devices(),
    search: (row) => (row.search ||= text(row.id, row.node, row.model, row.holders.join(" "))),
    filters: () => ({ name: "state", values: store.hello.states.map((one) => one.name), of: (row) => stateName(row.state) }),
    namespace: (row) => !get("ns") || row.holders.some(([claim]) => claim.startsWith(`${get("ns")}/`)),
    columns: [
      { name: "name", title: "Device", width: "minmax(7rem, 1fr)", cell: (row) => link("device", row.id, row.name), sort: (row) => (row.sorted ||= sortable(`${row.name} ${row.id}`)) },
      { name: "node", title: "Node", width: "minmax(6rem, .8fr)", cell: (row) => store.nodes.has(row.node) ? link("node", row.node) : dim(row.node), sort: (row) => sortable(row.node) },
      { name: "state", title: "State", width: "6.6rem", cell: (row) => chip(stateName(row.state)), sort: (row) => row.state },
      { name: "claim", title: "Claim", width: "minmax(9rem, 1.4fr)", cell: (row) => several(row.holders, ([claim]) => link("claim", claim)), sort: (row) => sortable(row.holders[0]?.[0] || "~") },
      { name: "pod", title: "Pod", width: "minmax(9rem, 1.4fr)", cell: (row) => several(row.holders.flatMap(([, ...pods]) => pods), (pod) => link("pod", pod)), sort: (row) => sortable(row.holders[0]?.[1] || "~") },
      { name: "model", title: "Model", width: "minmax(8rem, 1.2fr)", cell: (row) => row.model || dim("–"), sort: (row) => row.model.toLowerCase() },
      { name: "note", title: "Note", width: "minmax(8rem, 1.4fr)", cell: (row) => h("span", { class: "dim", title: row.note }, row.note) },
    ],
    empty: "No device matches.",
    none: noDevices,
  },
  claims: {
    label: "claim", kind: "claim",
    rows: () => [...store.claims.values()],
    search: (row) => text(row.id, row.state, (row.classes || []).join(" "), (row.pods || []).join(" "), (row.devices || []).join(" ")),
    filters: () => ({ name: "state", values: ["pending", "allocated", "allocated,reserved"], of: (row) => row.state }),
    namespace: namespaced,
    columns: [
      named("Claim", "claim"),
      { name: "state", title: "State", width: "10.8rem", cell: (row) => chip(row.state), sort: (row) => row.state },
      { name: "class", title: "Class", width: "minmax(9rem, 1.2fr)", cell: (row) => several(row.classes || [], (name) => store.classes.has(name) ? link("class", name) : name || dim("–")), sort: (row) => (row.classes || [])[0] || "" },
      { name: "devices", title: "Devices", width: "minmax(10rem, 1.6fr)", cell: (row) => several(row.devices || [], (id) => link("device", id, placed(id), { title: row.devices.join("\n") })), sort: (row) => sortable((row.devices || [])[0] || "~") },
      { name: "pod", title: "Pods", width: "minmax(7rem, 1fr)", cell: (row) => several(row.pods || [], (id) => link("pod", id, local(row, id), { title: row.pods.join("\n") })), sort: (row) => sortable((row.pods || [])[0] || "~") },
      created,
    ],
    empty: "No claim matches.",
    none: () => nothing("ResourceClaim", "claim"),
  },
  pods: {
    label: "pod", kind: "pod",
    rows: () => [...store.pods.values()],
    search: (row) => text(row.id, row.phase, row.node || "", row.reason || "", (row.claims || []).join(" ")),
    filters: () => ({ name: "phase", values: ["Pending", "Running", "Succeeded", "Failed", "Terminating"], of: (row) => row.phase }),
    namespace: namespaced,
    columns: [
      named("Pod", "pod"),
      { name: "phase", title: "Phase", width: "8rem", cell: (row) => chip(row.phase), sort: (row) => row.phase },
      { name: "node", title: "Node", width: "minmax(7rem, .8fr)", cell: (row) => row.node ? (store.nodes.has(row.node) ? link("node", row.node) : row.node) : dim("–"), sort: (row) => sortable(row.node || "~") },
      { name: "claims", title: "Claims", width: "minmax(9rem, 1.4fr)", cell: (row) => several(row.claims || [], (id) => link("claim", id, local(row, id), { title: row.claims.join("\n") })), sort: (row) => (row.claims || []).length },
      { name: "reason", title: "Why it waits", width: "minmax(12rem, 2.4fr)", cell: (row) => h("span", { class: "dim", title: row.reason }, row.reason || "") },
      created,
    ],
    empty: "No pod matches. Pods with claims, and pods that wait, are listed here.",
  },
  classes: {
    label: "class", kind: "class",
    rows: () => [...store.classes.values()],
    search: (row) => text(row.id, (row.selectors || []).join(" ")),
    columns: [
      named("Class", "class"),
      { name: "devices", title: "Devices", width: "7rem", cell: (row) => row.driver ? dim("–") : String(total(row.counts || [])), sort: (row) => -total(row.counts || []) },
      { name: "bar", title: "By state", width: "minmax(10rem, 1fr)", cell: (row) => row.driver ? dim("–") : stateBar(row.counts || []) },
      { name: "selectors", title: "Selectors", width: "minmax(14rem, 3fr)", cell: (row) => (row.selectors || []).length ? h("code", { title: row.selectors.join("\n") }, row.selectors.join(" && ")) : dim(row.driver ? `driver ${row.driver} chooses` : "every device") },
      created,
    ],
    empty: "No class matches.",
    none: () => nothing("DeviceClass", "class"),
  },
  nodes: {
    label: "node", kind: "node",
    rows: () => {
      const found = byNode();
      return [...store.nodes.values()].map((row) => ({ ...row, counts: countStates(found.get(row.id) || []) }));
    },
    search: (row) => text(row.id, (row.taints || []).join(" ")),
    columns: [
      named("Node", "node"),
      { name: "ready", title: "State", width: "11rem", cell: (row) => [chip(row.ready === false ? "Not ready" : "Ready"), row.cordoned ? dim(" cordoned") : null], sort: (row) => (row.ready === false ? 0 : 1) },
      { name: "free", title: "Free", width: "5rem", cell: (row) => String(row.counts[0] || 0), sort: (row) => -(row.counts[0] || 0) },
      { name: "devices", title: "Devices", width: "6rem", cell: (row) => String(total(row.counts)), sort: (row) => -total(row.counts) },
      { name: "bar", title: "By state", width: "minmax(10rem, 2fr)", cell: (row) => stateBar(row.counts) },
    ],
    empty: "No node matches.",
    none: () => nothing("Node", "node"),
  },
  pools: {
    label: "pool", kind: "pool",
    rows: () => [...store.pools.values()],
    search: (row) => text(row.id, row.node || "", row.problem || ""),
    filters: () => ({ name: "state", values: ["complete", "incomplete", "invalid"], of: (row) => (row.problem || "complete").split(":")[0] }),
    columns: [
      { ...named("Pool", "pool"), cell: (row) => link("pool", row.id, row.pool) },
      { name: "driver", title: "Driver", width: "minmax(9rem, 1fr)", cell: (row) => row.driver, sort: (row) => row.driver },
      { name: "state", title: "State", width: "8.5rem", cell: (row) => chip((row.problem || "complete").split(":")[0]), sort: (row) => row.problem || "~" },
      { name: "slices", title: "Slices", width: "6rem", cell: (row) => `${row.slices || 0} of ${row.expected || 0}`, sort: (row) => (row.slices || 0) - (row.expected || 0) },
      { name: "generation", title: "Generation", width: "7.5rem", cell: (row) => String(row.generation || 0), sort: (row) => -(row.generation || 0) },
      { name: "devices", title: "Devices", width: "6rem", cell: (row) => String((row.devices || []).length), sort: (row) => -(row.devices || []).length },
      { name: "bar", title: "By state", width: "minmax(9rem, 1.4fr)", cell: (row) => stateBar(countStates(devicesOf(row))) },
    ],
    empty: "No pool matches.",
    none: () => nothing("ResourceSlice", "pool"),
  },
  slices: {
    label: "slice", kind: "slice",
    rows: () => [...store.slices.values()],
    search: (row) => text(row.id, row.driver, row.pool, row.node || ""),
    columns: [
      named("Slice", "slice"),
      { name: "driver", title: "Driver", width: "minmax(9rem, 1fr)", cell: (row) => row.driver, sort: (row) => row.driver },
      { name: "pool", title: "Pool", width: "minmax(8rem, 1fr)", cell: (row) => link("pool", `${row.driver}/${row.pool}`, row.pool), sort: (row) => sortable(row.pool) },
      { name: "node", title: "Node", width: "minmax(7rem, 1fr)", cell: (row) => store.nodes.has(row.node) ? link("node", row.node) : dim(row.node || "–"), sort: (row) => sortable(row.node || "~") },
      { name: "generation", title: "Generation", width: "7.5rem", cell: (row) => String(row.generation || 0), sort: (row) => -(row.generation || 0) },
      { name: "devices", title: "Devices", width: "6rem", cell: (row) => String(row.devices || 0), sort: (row) => -(row.devices || 0) },
      created,
    ],
    empty: "No slice matches.",
    none: () => nothing("ResourceSlice", "slice"),
  },
};

let found = { key: "", rows: [] };
let selected = -1;

function filtered(name, list) {
  const wanted = get("q").toLowerCase().split(/\s+/).filter(Boolean);
  const filter = list.filters?.();
  const chosen = filter ? get(filter.name).split("|").filter(Boolean) : [];
  const place = get("node");
  const rows = list.rows();
  if (name !== "devices") {
    const keys = new Map(rows.map((row) => [row, sortable(row.id)]));
    rows.sort((a, b) => (keys.get(a) < keys.get(b) ? -1 : 1));
  }
  return rows.filter(
    (row) =>
      (!chosen.length || chosen.includes(filter.of(row))) &&
      (!list.namespace || list.namespace(row)) &&
      (!place || (row.node || "") === place) &&
      (!wanted.length || wanted.every((word) => list.search(row).includes(word))),
  );
}

export function listView(name, scroller) {
  const list = LISTS[name];
  const key = [name, store.revision, location.hash].join("\n");
  if (found.key !== key) {
    if (found.key.split("\n")[2] !== location.hash) selected = -1;
    found = { key, rows: sorted(list.columns, filtered(name, list)) };
  }
  const filter = list.filters?.();
  const chosen = filter ? get(filter.name).split("|").filter(Boolean) : [];
  return [
    h("div", { class: "heading" },
      h("h1", null, name[0].toUpperCase() + name.slice(1)),
      filter ? h("div", { class: "filters", role: "group", "aria-label": `Filter by ${filter.name}` },
        filter.values.map((value) => {
          const on = chosen.includes(value);
          const next = on ? chosen.filter((one) => one !== value) : [...chosen, value];
          return h("button", { class: "filter", "aria-pressed": String(on), onclick: () => set({ [filter.name]: next.join("|") }) },
            name === "devices" ? mark(value) : null, value);
        })) : null),
    table({
      columns: list.columns, rows: found.rows, label: list.label, scroller, selected,
      empty: get("q") || chosen.length || get("ns") || get("node") || !list.none ? list.empty : list.none(),
      href: (row) => toObject(list.kind, row.id),
      onselect: (index) => { selected = index; },
    }),
  ];
}

// Arrow keys move a selection through the rows; Enter opens the selected one.
export function listKey(name, event, scroller, redraw) {
  const step = { ArrowDown: 1, ArrowUp: -1, PageDown: 15, PageUp: -15 }[event.key];
  if (step && found.rows.length) {
    selected = Math.min(found.rows.length - 1, Math.max(0, selected + step));
    reveal(scroller, selected);
    redraw();
    return true;
  }
  if (event.key === "Enter" && selected >= 0 && found.rows[selected] && !event.target.closest("a, button")) {
    location.hash = toObject(LISTS[name].kind, found.rows[selected].id);
    return true;
  }
  return false;
}

// Everything of every kind that has these words.
export function searchView() {
  const words = get("q").toLowerCase().split(/\s+/).filter(Boolean);
  const sections = ["pods", "claims", "nodes", "devices", "classes", "pools", "slices"].map((name) => {
    const list = LISTS[name];
    const rows = words.length ? list.rows().filter((row) => (!list.namespace || list.namespace(row)) && words.every((word) => list.search(row).includes(word))) : [];
    rows.sort((a, b) => (sortable(a.id) < sortable(b.id) ? -1 : 1));
    if (!rows.length) return null;
    return h("section", { class: "panel", key: name, "aria-label": name },
      h("h2", null, name[0].toUpperCase() + name.slice(1), " ", dim(plural(rows.length, list.label))),
      h("ul", { class: "plain" }, rows.slice(0, 12).map((row) => h("li", null, link(list.kind, row.id)))),
      rows.length > 12 ? h("p", null, h("a", { href: to(name, { q: get("q") }) }, `All ${rows.length}`)) : null);
  });
  return [
    h("div", { class: "heading" }, h("h1", null, "Search")),
    sections.some(Boolean) ? sections : h("p", { class: "empty" }, words.length ? "Nothing has these words." : "Type what you look for: names of pods, claims, nodes, devices, classes."),
  ];
}

// Arrow keys go from one thing found to the next, and from the search field to the first.
export function searchKey(event, scroller) {
  const links = [...scroller.querySelectorAll("a")];
  const here = links.indexOf(document.activeElement);
  const next = { ArrowDown: here + 1, ArrowUp: here - 1, Enter: here < 0 ? 0 : -1 }[event.key];
  if (next === undefined || !links[next]) return false;
  links[next].focus();
  return true;
}
