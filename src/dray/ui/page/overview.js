// The cluster at a glance.

import { h, svg } from "./dom.js";
import { devices, sortable, store } from "./store.js";
import { get, set, to } from "./router.js";
import { age, clock, empty, mark, meaning, noDevices, panel, plural, stateBar, stateName, unreadable } from "./parts.js";

const GROUPS = ["driver", "class", "model", "node"];
const PENDING = 12;

export function overviewView() {
  const counts = store.overview.states;
  return [
    h("div", { class: "heading" }, h("h1", null, "Overview")),
    unreadable("ResourceSlice") ? null : tiles(counts),
    h("div", { class: "columns" },
      h("div", { class: "wide" }, waiting(), breakdown()),
      h("div", { class: "narrow" }, chart(), news())),
  ];
}

function tiles(counts) {
  const total = counts.reduce((sum, count) => sum + count, 0);
  return h("section", { class: "tiles", "aria-label": "Devices by state" },
    h("a", { class: "tile total", href: to("devices") },
      h("span", { class: "figure" }, total.toLocaleString("en")), h("span", { class: "label" }, "devices")),
    counts.map((count, i) => {
      const name = stateName(i);
      return h("a", { class: count ? "tile" : "tile none", key: name, href: to("devices", { state: name }), title: meaning(name) },
        h("span", { class: "figure" }, mark(name), count.toLocaleString("en")), h("span", { class: "label" }, name));
    }),
    h("div", { class: "tilebar" }, stateBar(counts)));
}

const here = (row) => !get("ns") || row.id.startsWith(`${get("ns")}/`);

// Pods that wait for the same reason, such as the members of a gang, are one entry.
function waiting() {
  const pods = [...store.pods.values()].filter((row) => row.cause && here(row)).sort((a, b) => (`${a.created} ${a.id}` < `${b.created} ${b.id}` ? -1 : 1));
  const claims = [...store.claims.values()].filter((row) => row.state === "pending" && !(row.pods || []).length && here(row));
  const entries = new Map();
  for (const row of pods) {
    const key = `${row.id.split("/")[0]} ${row.reason}`;
    if (entries.has(key)) entries.get(key).push(row);
    else entries.set(key, [row]);
  }
  const list = [...entries.values()];
  return panel("Waiting",
    list.length
      ? h("ul", { class: "waiting" }, list.slice(0, PENDING).map(([row, ...others]) =>
          h("li", { key: row.id },
            h("a", { class: "wait", href: to("pod", { id: row.id }) },
              h("span", { class: "who" }, row.id), h("span", { class: "since" }, age(row.created)),
              h("span", { class: "why" }, row.reason)),
            others.length ? h("a", { class: "more", href: to("pods", { phase: "Pending", ns: row.id.split("/")[0], q: row.reason }) }, `and ${plural(others.length, "other pod")}`) : null)))
      : empty("No pod waits."),
    list.length > PENDING ? h("p", null, h("a", { href: to("pods", { phase: "Pending" }) }, `All ${pods.length} that wait`)) : null,
    claims.length ? h("p", { class: "dim" }, h("a", { href: to("claims", { state: "pending" }) }, plural(claims.length, "pending claim")), " of no pod") : null);
}

function breakdown() {
  const by = GROUPS.includes(get("by")) ? get("by") : "driver";
  const rows = by === "node" ? nodes() : { driver: store.overview.drivers, class: store.overview.classes, model: store.overview.models }[by];
  const target = (name) => ({ driver: () => to("devices", { q: name }), class: () => to("class", { id: name }), model: () => to("devices", { q: name }), node: () => to("node", { id: name }) })[by]();
  return h("section", { class: "panel", key: "devices", "aria-label": "Devices" },
    h("div", { class: "panelhead" }, h("h2", null, "Devices"),
      h("div", { class: "segmented", role: "group", "aria-label": "Counted by" },
        GROUPS.map((name) => h("button", { "aria-pressed": String(name === by), onclick: () => set({ by: name === "driver" ? "" : name }) }, name)))),
    rows.length
      ? h("table", { class: "sums" },
          h("caption", { class: "hidden" }, `Devices by ${by}`),
          h("thead", null, h("tr", null, h("th", { scope: "col" }, by), h("th", { scope: "col", class: "number" }, "Free"), h("th", { scope: "col", class: "number" }, "Total"), h("th", { scope: "col" }, "By state"))),
          h("tbody", null, rows.slice(0, 12).map(([name, counts]) =>
            h("tr", { key: name }, h("th", { scope: "row" }, h("a", { href: target(name) }, name || "(none)")),
              h("td", { class: "number" }, (counts[0] || 0).toLocaleString("en")),
              h("td", { class: "number" }, counts.reduce((a, b) => a + b, 0).toLocaleString("en")),
              h("td", { class: "bar" }, stateBar(counts))))))
      : noDevices(),
    rows.length > 12 ? h("p", null, h("a", { href: to(by === "node" ? "nodes" : by === "class" ? "classes" : "devices") }, `All ${rows.length.toLocaleString("en")}`)) : null);
}

let perNode = { of: -1, rows: [] };

// Nodes with the least free first: that is where it gets tight.
function nodes() {
  if (perNode.of !== store.revision) {
    const found = new Map();
    for (const device of devices()) {
      let counts = found.get(device.node);
      if (!counts) found.set(device.node, (counts = store.hello.states.map(() => 0)));
      counts[device.state]++;
    }
    const rows = [...found].sort((a, b) => a[1][0] - b[1][0] || (sortable(a[0]) < sortable(b[0]) ? -1 : 1));
    perNode = { of: store.revision, rows };
  }
  return perNode.rows;
}

const WIDTH = 520, HEIGHT = 150;

// Devices in use over time, as areas on top of each other; free ones are what is left above.
function chart() {
  const samples = store.history;
  const last = samples[samples.length - 1];
  const first = samples[0];
  let drawing = empty("Nothing has been seen yet.");
  if (unreadable("ResourceSlice")) {
    drawing = noDevices();
  } else if (last && store.overview.states.length) {
    const now = [Date.now() / 1000, ...store.overview.states];
    const points = [...samples, now];
    const most = Math.max(1, ...points.map((one) => one.slice(1).reduce((a, b) => a + b, 0)));
    const span = Math.max(1, now[0] - first[0]);
    const x = (one) => ((one[0] - first[0]) / span) * WIDTH;
    const y = (value) => HEIGHT - (value / most) * HEIGHT;
    const order = store.hello.states.map((_, i) => i).filter((i) => i > 0);
    const below = points.map(() => 0);
    const areas = order.map((state) => {
      if (!points.some((one) => one[state + 1])) return null;
      const lower = points.map((one, i) => `${x(one).toFixed(1)},${y(below[i]).toFixed(1)}`).reverse();
      points.forEach((one, i) => { below[i] += one[state + 1]; });
      const upper = points.map((one, i) => `${x(one).toFixed(1)},${y(below[i]).toFixed(1)}`);
      return svg("path", { class: `area s-${stateName(state)}`, d: `M${upper.join("L")}L${lower.join("L")}Z` });
    });
    const total = now.slice(1).reduce((a, b) => a + b, 0);
    const used = now.slice(2).reduce((a, b) => a + b, 0);
    drawing = h("figure", { class: "chart" },
      svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "img", "aria-label": `${used} of ${total} devices are not free now` }, 
        svg("path", { class: "grid", d: `M0,0.5H${WIDTH}M0,${HEIGHT / 2}H${WIDTH}M0,${HEIGHT - 0.5}H${WIDTH}` }), areas),
      h("figcaption", null, h("span", null, `since ${clock(first[0])}`), h("span", null, `${used.toLocaleString("en")} of ${total.toLocaleString("en")} not free`)));
  }
  return panel("Use over time", drawing);
}

function news() {
  const newest = store.happenings.filter((one) => (one.kind !== "pod" && one.kind !== "claim") || here(one)).slice(-14).reverse();
  return panel("What happened last",
    newest.length
      ? h("ol", { class: "news" }, newest.map((one) =>
          h("li", { key: `${one.at} ${one.id} ${one.text}` }, h("time", { datetime: new Date(one.at * 1000).toISOString() }, clock(one.at)),
            h("a", { href: to(one.kind, { id: one.id }) }, one.text))))
      : empty("Nothing yet."));
}

