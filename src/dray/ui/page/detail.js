// The page of one object, and why it waits.

import { h } from "./dom.js";
import { ask, devicesOf, store } from "./store.js";
import { get, to, toObject } from "./router.js";
import { capacityBar, chip, clock, empty, link, moment, panel, plural } from "./parts.js";
import { arranged, cell } from "./map.js";

export const OBJECTS = { device: "devices", claim: "claims", pod: "pods", class: "classes", slice: "slices", pool: "pools", node: "nodes" };

const EVENTS_SECONDS = 5; // events are not in the stream, so a page that is open asks for them

let shown = { key: "" };
const question = () => ({ answer: null, of: -1, at: 0, next: 0, busy: false, timer: 0 });

// Ask when the page is opened, again when something has changed, and not faster than the server answers.
function need(kind, id, redraw) {
  const key = `${kind} ${id}`;
  if (shown.key !== key) shown = { key, page: question(), why: question() };
  refresh(shown.page, () => ask("api/object", { kind, id }), redraw, EVENTS_SECONDS);
  if (kind === "pod" || kind === "claim") refresh(shown.why, () => ask("api/why", { kind, id }), redraw);
}

async function refresh(one, put, redraw, seconds = Infinity) {
  const began = Date.now();
  if (one.busy || (one.of === store.changes && began - one.at < seconds * 1000)) return;
  if (began < one.next) {
    one.timer ||= setTimeout(() => { one.timer = 0; redraw(); }, one.next - began + 5);
    return;
  }
  one.busy = true;
  one.of = store.changes;
  try {
    one.answer = await put();
  } catch {
    one.of = -1;
  }
  one.busy = false;
  one.at = Date.now();
  one.next = one.at + Math.max(150, (one.at - began) * 2);
  redraw();
}

export function detailView(kind, redraw) {
  const id = get("id");
  need(kind, id, redraw);
  const page = shown.page.answer, why = shown.why.answer;
  const path = h("p", { class: "crumbs" }, crumbs(kind, id));
  if (!page) return [path, h("div", { class: "heading" }, h("h1", null, id)), h("p", { class: "loading" }, "Reading …")];
  if (page.problem) return [path, h("div", { class: "heading" }, h("h1", null, id)), empty(page.problem)];
  const explained = why && !why.problem && page.state !== "gone";
  return [
    path,
    h("div", { class: "heading" }, h("h1", null, page.title), page.state ? h("span", { class: "headstate", role: "status" }, chip(page.state)) : null),
    page.summary && !explained ? h("p", { class: "summary" }, page.summary) : null,
    explained ? whyPanel(why) : null,
    page.sections.map(section),
  ];
}

// Devices and pools have names that others have, too: where they belong is a part of their name.
function crumbs(kind, id) {
  const list = h("a", { href: to(OBJECTS[kind]) }, OBJECTS[kind][0].toUpperCase() + OBJECTS[kind].slice(1));
  if (kind === "device") return [list, " / ", link("pool", id.slice(0, id.lastIndexOf("/")))];
  if (kind === "pool") return [list, " / ", h("a", { href: to("pools", { q: id.split("/")[0] }) }, id.split("/")[0])];
  return list;
}

// --- sections ---

function section(one) {
  switch (one.type) {
    case "facts":
      return panel(one.title, h("dl", { class: "facts" }, one.facts.map(([label, value]) => [h("dt", null, label), h("dd", null, content(value))])));
    case "table":
      return panel(one.title, one.rows.length
        ? h("div", { class: "scrolls", tabindex: "0", role: "region", "aria-label": one.title },
            h("table", { class: "lines" }, h("thead", null, h("tr", null, one.columns.map((name) => h("th", { scope: "col" }, name)))),
              h("tbody", null, one.rows.map((row) => h("tr", null, row.map((value) => h("td", null, content(value))))))))
        : empty(one.empty || "None."));
    case "timeline":
      return one.moments.length
        ? panel(one.title, h("ol", { class: "timeline" }, one.moments.map(([at, state, before]) => h("li", null, chip(state),
            h("time", { datetime: new Date(at * 1000).toISOString(), title: new Date(at * 1000).toLocaleString() }, before ? "before " : "", clock(at))))))
        : null;
    case "text":
      return h("details", { class: "panel", key: one.title }, h("summary", null, one.title), h("pre", { tabindex: "0" }, one.text));
    case "tiles":
      return panel(one.title, tiles(one));
  }
  return null;
}

function tiles({ pools, devices }) {
  const wanted = new Set(devices);
  const found = pools.map((id) => store.pools.get(id)).filter(Boolean);
  if (!found.length) return empty("None.");
  return found.map((pool) => {
    const list = devicesOf(pool).filter((device) => !wanted.size || wanted.has(device.id));
    const named = (several) => several.length
      ? h("div", { class: "cells big" }, several.map((device) => h("div", { class: "named", key: device.id }, cell(device), h("span", { class: "dim" }, device.name)))) : null;
    const { cells, shared, sets } = arranged(list);
    return h("div", { class: "tilepool", key: pool.id },
      found.length > 1 ? h("p", { class: "partname" }, link("pool", pool.id)) : null,
      named(cells),
      shared.map((device) => h("div", { class: "share big", key: device.id }, cell(device), h("span", { class: "dim" }, device.name), h("div", { class: "sharebars" }, device.bars.map(capacityBar)))),
      [...sets.values()].map((box) => h("div", { class: "set big", key: box.name },
        h("p", { class: "partname" }, box.name), named(box.cells), h("div", { class: "counterset" }, box.bars.map(capacityBar)))),
      (pool.counters || []).filter(([name]) => !wanted.size && !sets.has(`${pool.id} ${name}`)).map(([name, bars]) =>
        h("div", { class: "set big", key: name }, h("p", { class: "partname" }, name), h("div", { class: "counterset" }, bars.map(capacityBar)))));
  });
}

function content(value) {
  if (Array.isArray(value)) return h("span", { class: "several" }, value.map((one) => h("span", { class: "one" }, content(one))));
  if (typeof value !== "object" || value === null) return value;
  switch (value.type) {
    case "link": return h("a", { href: toObject(value.kind, value.id) }, value.text);
    case "chip": return chip(value.text);
    case "code": return h("code", null, value.text);
    case "time": return moment(value.text);
    case "bars": return value.bars.map(capacityBar);
  }
  return "";
}

// --- why ---

const linked = /\b(pod|claim) ([a-z0-9.-]+\/[a-z0-9.-]+)/g;

// Names of pods and claims in a sentence become links.
function sentence(text) {
  const parts = [];
  let end = 0;
  for (const found of text.matchAll(linked)) {
    const id = found[2].replace(/\.$/, "");
    parts.push(text.slice(end, found.index), `${found[1]} `, link(found[1], id));
    end = found.index + found[1].length + 1 + id.length;
  }
  return [...parts, text.slice(end)];
}

export function whyPanel(why, title = "") {
  const bad = ["pending", "refused", "stuck"].includes(why.outcome);
  return h("section", { class: `panel why ${bad ? "bad" : "well"}`, key: "why", "aria-label": "Why" },
    h("h2", null, title || (bad ? `Why it is ${why.outcome}` : "Why it is where it is")),
    h("p", { class: "headline" }, sentence(why.headline)),
    why.scheduler ? h("p", { class: "dim" }, "The scheduler says: ", why.scheduler) : null,
    why.facts.length ? h("ul", { class: "plainlist" }, why.facts.map((fact) => h("li", { class: fact.startsWith("  ") ? "sub" : undefined }, sentence(fact.trim())))) : null,
    why.requests.map(request),
    why.advice.length ? [h("h3", null, "What would help"), h("ul", { class: "advice" }, why.advice.map((text) => h("li", null, sentence(text))))] : null,
    why.nodes.length ? h("details", { class: "nodegroups", open: why.nodes.length < 4 }, h("summary", null, "Node by node"),
      h("div", { class: "scrolls", tabindex: "0", role: "region", "aria-label": "Node by node" }, h("table", { class: "lines" },
        h("thead", null, h("tr", null, ["Nodes", "Such as", "What keeps it off"].map((name) => h("th", { scope: "col" }, name)))),
        h("tbody", null, why.nodes.slice(0, 12).map((group) => h("tr", null,
          h("td", { class: "number" }, String(group.nodes)),
          h("td", null, store.nodes.has(group.closest) ? link("node", group.closest) : group.closest),
          h("td", null, group.fits ? "it fits here" : [...group.causes, ...group.devices].map((text) => h("div", null, text))))))))) : null);
}

// What became of all devices for one request: each cause as a bar.
function request(one) {
  const wanted = one.wanted === "All" ? "all devices" : plural(one.wanted, "device");
  const line = (count, tone, ...text) => h("div", { class: "removed" },
    h("span", { class: "number" }, count.toLocaleString("en")),
    h("span", { class: "removedtrack", "aria-hidden": "true" }, h("span", { class: `removedfill ${tone}`, css: { width: `${one.considered && count ? Math.max(1, (count / one.considered) * 100) : 0}%` } })),
    h("span", { class: "removedtext" }, text));
  return h("div", { class: "request" },
    h("h3", null, `Request ${one.request}`, h("span", { class: "dim" }, ` of claim ${one.claim}: ${wanted} of class `), store.classes.has(one.deviceClass) ? link("class", one.deviceClass) : one.deviceClass),
    line(one.usable, "usable", "usable"),
    one.removed.map((cause) => line(cause.devices, "", cause.text,
      cause.holders.length ? h("span", { class: "dim" }, ` — ${cause.holders.join(", ")}`) : null,
      cause.conditions.length > 1 ? h("ul", { class: "conditions" }, cause.conditions.map((c) => h("li", null, h("code", null, c.source), ` true on ${c.true} of ${c.true + c.false}${c.error ? `; ${c.error}` : ""}`))) : null,
      cause.asked.map((asked) => h("div", { class: "asked dim" }, h("code", null, asked.name), ": ", asked.values.map((v) => `${v.value} (${v.devices})`).join(", "),
        asked.missing ? `${asked.values.length ? ", " : ""}missing (${asked.missing})` : "", asked.suggestion ? h("strong", null, ` did you mean ${asked.suggestion}?`) : null)))),
    one.nearest ? h("p", { class: "nearest" }, h("strong", null, "Nearest miss: "), one.nearest) : null);
}
