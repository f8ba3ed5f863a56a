// What the server has told: rows of every collection, kept up to date by its events.

const listeners = new Set();
const COLLECTIONS = ["nodes", "pools", "classes", "claims", "pods", "slices"];

export const store = {
  connection: "connecting", // live, lost, refused
  upstream: "", // why the API server cannot be reached
  hello: { states: [], unread: [], limited: [], namespace: "" },
  ready: false,
  overview: { states: [], drivers: [], models: [], classes: [] },
  history: [],
  happenings: [],
  revision: 0, // counts changes of rows
  changes: 0, // counts changes of anything, also of what no row shows
  slicesRevision: 0, // counts changes of what devices are
  ...empty(),
};

function empty() {
  return Object.fromEntries(COLLECTIONS.map((name) => [name, new Map()]));
}

export function listen(listener) {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

function tell(what) {
  for (const listener of [...listeners]) listener(what);
}

// --- devices, which are inside the rows of pools ---

const flattened = new WeakMap();
let allDevices = { of: -1, list: [] };

// Numbers in names count as numbers: node-10 comes after node-9.
export function sortable(text) {
  return text.toLowerCase().replace(/\d+/g, (digits) => digits.padStart(8, "0"));
}

export function devicesOf(pool) {
  let found = flattened.get(pool);
  if (!found) {
    found = (pool.devices || []).map((row, index) => {
      const node = row.w || pool.node || "";
      const holders = row.h || [];
      return {
        id: `${pool.id}/${row.n}`,
        name: row.n,
        state: row.s,
        node,
        pool,
        driver: pool.driver,
        model: row.m || pool.model || "",
        holders,
        note: row.t || "",
        bars: row.c || [],
        sets: row.p || [],
        index,
        looks: `${row.n},${row.s},${holders},${row.t || ""},${row.c || ""};`, // what a cell shows of it
      };
    });
    flattened.set(pool, found);
  }
  return found;
}

const order = new WeakMap();

// Pools by node and name, the order in which devices are listed.
function sortedPools() {
  const key = (pool) => {
    if (!order.has(pool)) order.set(pool, sortable(`${pool.node || "~"} ${pool.id}`));
    return order.get(pool);
  };
  return [...store.pools.values()].sort((a, b) => (key(a) < key(b) ? -1 : 1));
}

export function devices() {
  if (allDevices.of !== store.revision) {
    const list = [];
    for (const pool of sortedPools()) for (const device of devicesOf(pool)) list.push(device);
    allDevices = { of: store.revision, list };
  }
  return allDevices.list;
}

let knownNamespaces = { of: -1, list: [] };

export function namespaces() {
  if (knownNamespaces.of !== store.revision) {
    const found = new Set([store.hello.namespace || "default"]);
    for (const id of store.pods.keys()) found.add(id.split("/")[0]);
    for (const id of store.claims.keys()) found.add(id.split("/")[0]);
    knownNamespaces = { of: store.revision, list: [...found].sort() };
  }
  return knownNamespaces.list;
}

// --- events ---

let source = null;
let staged = null; // rows of a complete state that is still arriving
let heard = 0;

export function connect() {
  source = new EventSource("api/stream");
  const on = (name, handler) =>
    source.addEventListener(name, (event) => {
      heard = Date.now();
      handler(JSON.parse(event.data));
    });
  source.onopen = () => {
    heard = Date.now();
  };
  source.onerror = lost;
  on("hello", (hello) => {
    if (store.hello.version && store.hello.version !== hello.version) location.reload();
    store.hello = hello;
    tell("hello");
  });
  on("reset", () => {
    staged = empty();
  });
  on("overview", (overview) => {
    store.overview = overview;
    tell("overview");
  });
  on("history", (samples) => {
    store.history = samples;
  });
  on("sample", (sample) => {
    store.history.push(sample);
    if (store.history.length > 1440) store.history.splice(0, 720);
    tell("history");
  });
  on("happenings", (found) => {
    store.happenings = staged ? found : [...store.happenings, ...found].slice(-200);
    tell("happenings");
  });
  on("rows", ({ of, set, gone }) => {
    const rows = (staged || store)[of];
    for (const row of set) rows.set(row.id, row);
    for (const id of gone) rows.delete(id);
    if (of === "slices") store.slicesRevision++;
    if (!staged) changed();
  });
  on("ready", () => {
    Object.assign(store, staged);
    staged = null;
    store.ready = true;
    store.connection = "live";
    store.slicesRevision++;
    store.changes++;
    changed();
  });
  on("changed", () => {
    store.changes++;
    tell("changed");
  });
  on("beat", () => {});
  on("upstream", (problem) => {
    store.upstream = problem;
    tell("connection");
  });
}

function changed() {
  store.revision++;
  tell("rows");
}

// The browser tries again by itself, unless it was refused; then we do, and find out why.
async function lost() {
  const refused = source.readyState === EventSource.CLOSED;
  if (store.connection !== "refused") store.connection = "lost";
  tell("connection");
  if (!refused) return;
  source.close();
  try {
    const answer = await fetch("api/attributes?probe");
    store.connection = answer.status === 401 || answer.status === 403 ? "refused" : "lost";
  } catch {
    store.connection = "lost";
  }
  tell("connection");
  setTimeout(connect, 1000);
}

// A connection that is there but silent is as good as lost: the server says something every ten seconds.
setInterval(() => {
  if (source && source.readyState === EventSource.OPEN && heard && Date.now() - heard > 35000) {
    source.close();
    lost();
  }
}, 5000);

// --- questions ---

export async function ask(path, parameters, options) {
  const query = new URLSearchParams(parameters || {}).toString();
  const answer = await fetch(query ? `${path}?${query}` : path, options);
  const document = await answer.json().catch(() => ({ problem: `The server answered ${answer.status}.` }));
  if (!answer.ok && !document.problem) document.problem = `The server answered ${answer.status}.`;
  return document;
}
