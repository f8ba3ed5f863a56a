// The map: every node a card, every device a cell. Only the cards in view are drawn.

import { h } from "./dom.js";
import { ask, devicesOf, sortable, store } from "./store.js";
import { get, set, to } from "./router.js";
import { capacityBar, empty, mark, meaning, noDevices, plural, stateName } from "./parts.js";

// The sizes that style.css gives to the same things.
const CARD = 268, GAP = 14, HEAD = 44, FOOT = 10, CELL = 28, PER_ROW = 8, LABEL = 20, SET = 16, BAR = 20, SECTION = 44, PART = 8, SHARE = 8;
const BARS = 3; // of a counter set or a shared device, in a card
const SECTIONS = 24; // more groups than these are shown inside the cards
const PALETTE = 8;

let attributes = { of: -1, names: [], loading: false };
const values = new Map(); // attribute → {of, pools}

function needAttributes(redraw) {
  if (attributes.of === store.slicesRevision || attributes.loading) return;
  attributes.loading = true;
  const of = store.slicesRevision;
  ask("api/attributes").then((names) => {
    attributes = { of, names: Array.isArray(names) ? names : [], loading: false };
    redraw();
  });
}

function needValues(name, redraw) {
  const known = values.get(name);
  if (known && (known.of === store.slicesRevision || known.loading)) return known.pools;
  values.set(name, { ...(known || { pools: {} }), loading: true });
  const of = store.slicesRevision;
  ask("api/attribute", { name }).then((pools) => {
    values.set(name, { of, pools, loading: false });
    redraw();
  });
  return known?.pools || {};
}

// From a choice such as "model" or an attribute's name to the value that each device has.
function reader(choice, redraw) {
  if (!choice || choice === "state") return null;
  if (choice === "driver") return (device) => device.driver;
  if (choice === "model") return (device) => device.model;
  const pools = needValues(choice, redraw);
  return (device) => pools[device.pool.id]?.[device.index] ?? "";
}

let made = { key: "", groups: [], legend: [] };

function build(redraw) {
  const group = get("group"), colour = get("colour", "state"), q = get("q").toLowerCase();
  const states = get("state").split("|").filter(Boolean), ns = get("ns");
  const byGroup = reader(group, redraw), byColour = reader(colour, redraw);
  const loaded = [...values.values()].map((one) => one.of).join();
  const key = [store.revision, group, colour, q, states, ns, loaded].join("\n");
  if (made.key === key) return made;
  const words = q.split(/\s+/).filter(Boolean);
  const cards = new Map(); // group → node → card
  const frequency = new Map();
  const groupCount = new Set();
  if (byGroup) for (const pool of store.pools.values()) for (const device of devicesOf(pool)) groupCount.add(byGroup(device));
  const inside = groupCount.size > SECTIONS;
  const addresses = (device) => words.every((word) => `${device.id} ${device.node} ${device.model} ${device.holders.join(" ")}`.toLowerCase().includes(word));
  for (const pool of store.pools.values()) {
    for (const device of devicesOf(pool)) {
      if (states.length && !states.includes(stateName(device.state))) continue;
      if (ns && !device.holders.some(([claim]) => claim.startsWith(`${ns}/`))) continue;
      if (words.length && !addresses(device)) continue;
      const value = byGroup ? byGroup(device) : "";
      const section = inside ? "" : value;
      let nodes = cards.get(section);
      if (!nodes) cards.set(section, (nodes = new Map()));
      let card = nodes.get(device.node);
      if (!card) nodes.set(device.node, (card = { node: device.node, parts: new Map(), total: 0, free: 0, looks: "" }));
      card.looks += device.looks;
      card.total++;
      if (device.state === 0) card.free++;
      const cluster = inside ? `${device.driver} · ${value || "(none)"}` : device.driver;
      let part = card.parts.get(cluster);
      if (!part) card.parts.set(cluster, (part = { title: inside ? value || "(none)" : device.driver, devices: [] }));
      part.devices.push(device);
      if (byColour) {
        const shade = byColour(device);
        frequency.set(shade, (frequency.get(shade) || 0) + 1);
      }
    }
  }
  const legend = [...frequency].filter(([value]) => value).sort((a, b) => b[1] - a[1] || (a[0] < b[0] ? -1 : 1)).slice(0, PALETTE).map(([value]) => value);
  const groups = [...cards].sort((a, b) => (sortable(a[0]) < sortable(b[0]) ? -1 : 1)).map(([name, nodes]) => ({
    name,
    cards: [...nodes.values()].sort((a, b) => (sortable(a.node) < sortable(b.node) ? -1 : 1)).map((card) => {
      const parts = [...card.parts].sort((a, b) => (sortable(a[0]) < sortable(b[0]) ? -1 : 1))
        .map(([key, { title, devices }]) => ({ key, title, ...arranged(devices) }));
      return { ...card, parts, height: heightOf(parts) };
    }),
  }));
  const total = groups.reduce((sum, one) => sum + one.cards.length, 0);
  made = { key, groups, legend, byColour, total, loaded };
  return made;
}

// Partitions in the box of their card, shared devices beside their bars, and all others as plain cells.
export function arranged(devices) {
  const cells = [], shared = [], sets = new Map();
  for (const device of devices) {
    if (device.sets.length) {
      const name = `${device.pool.id} ${device.sets[0]}`;
      let box = sets.get(name);
      if (!box) {
        const found = (device.pool.counters || []).find(([set]) => set === device.sets[0]);
        sets.set(name, (box = { name: device.sets[0], cells: [], bars: found ? found[1] : [] }));
      }
      box.cells.push(device);
    } else if (device.bars.length) {
      shared.push(device);
    } else {
      cells.push(device);
    }
  }
  return { cells, shared, sets };
}

const shareHeight = (device) => Math.min(device.bars.length, BARS) * BAR + SHARE;

function heightOf(parts) {
  let height = HEAD + FOOT;
  for (const part of parts) {
    if (parts.length > 1) height += LABEL;
    height += part.cells.length ? Math.ceil(part.cells.length / PER_ROW) * CELL + PART - 4 : 0;
    for (const device of part.shared) height += shareHeight(device);
    for (const box of part.sets.values()) {
      height += SET + LABEL + Math.ceil(box.cells.length / PER_ROW) * CELL + Math.min(box.bars.length, BARS) * BAR + PART;
    }
  }
  return height;
}

export function mapView(scroller, redraw) {
  needAttributes(redraw);
  const { groups, legend, byColour, total } = build(redraw);
  const inside = getComputedStyle(scroller);
  const width = scroller.clientWidth - parseFloat(inside.paddingLeft) - parseFloat(inside.paddingRight);
  const columns = Math.max(1, Math.floor((width + GAP) / (CARD + GAP)));
  const card = Math.floor((width + GAP) / columns) - GAP;
  const top = scroller.scrollTop - 500, bottom = scroller.scrollTop + scroller.clientHeight + 300;
  const drawn = [];
  const colours = byColour ? [get("colour"), ...legend, made.loaded].join() : "";
  let y = 0;
  for (const group of groups) {
    if (get("group") && groups.length + (group.name ? 1 : 0) > 1) {
      if (y + SECTION > top && y < bottom) {
        const at = y;
        drawn.push({
          key: `# ${group.name}`, signature: `${at} ${group.cards.length}`,
          make: () => h("h2", { class: "mapsection", css: { top: `${at}px` } }, group.name || "(none)", " ", h("span", { class: "dim" }, plural(group.cards.length, "node"))),
        });
      }
      y += SECTION;
    }
    for (let i = 0; i < group.cards.length; i += columns) {
      const line = group.cards.slice(i, i + columns);
      const height = Math.max(...line.map((one) => one.height));
      if (y + height > top && y < bottom) {
        line.forEach((one, column) => {
          const box = { top: `${y}px`, left: `${column * (card + GAP)}px`, width: `${card}px`, height: `${one.height}px` };
          drawn.push({
            key: `${group.name} ${one.node}`, signature: `${Object.values(box)} ${one.looks} ${colours} ${get("ns")}`,
            make: () => drawCard(one, box, legend, byColour),
          });
        });
      }
      y += height + GAP;
    }
  }
  return [
    h("div", { class: "heading" }, h("h1", null, "Map"), choices(legend, byColour)),
    groups.length
      ? h("div", { class: "map", role: "group", "aria-label": `${total} nodes and pools, each with its devices`, css: { height: `${y}px` }, wants: drawn })
      : store.pools.size ? empty("No device matches.") : noDevices(),
  ];
}

function choices(legend, byColour) {
  const option = ([value, text]) => h("option", { value, selected: undefined }, text);
  const named = attributes.names.map(([name]) => [name, name]);
  const chosen = get("state").split("|").filter(Boolean);
  return h("div", { class: "mapchoices" },
    h("label", null, "Group by ", h("select", { value: get("group"), onchange: (event) => set({ group: event.target.value }) },
      [["", "node"], ["driver", "driver"], ["model", "model"], ...named].map(option))),
    h("label", null, "Colour by ", h("select", { value: get("colour", "state"), onchange: (event) => set({ colour: event.target.value === "state" ? "" : event.target.value }) },
      [["state", "state"], ["driver", "driver"], ["model", "model"], ...named].map(option))),
    h("div", { class: "legend", role: "group", "aria-label": "Legend" },
      byColour
        ? legend.map((value, i) => h("span", { class: "key" }, h("span", { class: `mark hue hue-${i}`, "aria-hidden": "true" }, letter(i)), value || "(none)"))
        : store.hello.states.map(({ name }) => {
            const on = chosen.includes(name);
            const next = on ? chosen.filter((one) => one !== name) : [...chosen, name];
            return h("button", { class: "filter", "aria-pressed": String(on), title: meaning(name), onclick: () => set({ state: next.join("|") }) }, mark(name), name);
          })));
}

const letter = (i) => "ABCDEFGH"[i];

function drawCard(card, box, legend, byColour) {
  const known = store.nodes.has(card.node);
  const several = card.parts.length > 1;
  return h("section", { class: "card", "aria-label": card.node, css: box },
    h("header", null,
      known ? h("a", { class: "node", href: to("node", { id: card.node }) }, card.node) : h("span", { class: "node" }, card.node),
      h("span", { class: "dim" }, `${card.free} of ${card.total} free`)),
    card.parts.map((part) => [
      several ? h("div", { class: "partname", key: part.key, title: part.title }, part.title) : null,
      part.cells.length ? h("div", { class: "cells" }, part.cells.map((device) => cell(device, legend, byColour))) : null,
      part.shared.map((device) => h("div", { class: "share", css: { height: `${shareHeight(device)}px` } },
        cell(device, legend, byColour), h("div", { class: "sharebars" }, device.bars.slice(0, BARS).map(capacityBar)))),
      [...part.sets.values()].map((box) => h("div", { class: "set" },
        h("div", { class: "partname", title: box.name }, box.name),
        h("div", { class: "cells" }, box.cells.map((device) => cell(device, legend, byColour))),
        box.bars.slice(0, BARS).map(capacityBar))),
    ]));
}

export function cell(device, legend = [], byColour = null) {
  const state = stateName(device.state);
  const holders = device.holders.map(([claim, ...pods]) => [claim, ...pods].join(" ← ")).join(", ");
  const said = [`${device.name}: ${state}`, holders, device.note].filter(Boolean).join(" · ");
  const shade = byColour ? byColour(device) : "";
  const hue = byColour ? legend.indexOf(shade) : -1;
  const most = Math.max(0, ...device.bars.map(([, used]) => used));
  return h("a",
    {
      class: byColour ? `cell hue hue-${hue < 0 ? "x" : hue}` : `cell s-${state}`, key: device.id, href: to("device", { id: device.id }),
      "aria-label": byColour ? `${said} · ${shade || "(none)"}` : said, title: byColour ? `${said}\n${shade || "(none)"}` : said,
    },
    byColour ? (hue < 0 ? "" : letter(hue)) : null,
    device.bars.length && !byColour ? h("span", { class: "cellfill", css: { height: `${Math.round(most * 100)}%` } }) : null);
}

// Arrow keys go from cell to cell, to the nearest one in that direction.
export function mapKey(event, scroller) {
  const direction = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key];
  if (!direction) return false;
  const cells = [...scroller.querySelectorAll(".map .cell")];
  if (!cells.length) return false;
  const here = document.activeElement.closest?.(".cell");
  if (!here) {
    cells[0].focus();
    return true;
  }
  const middle = (element) => {
    const box = element.getBoundingClientRect();
    return [box.left + box.width / 2, box.top + box.height / 2];
  };
  const [x, y] = middle(here);
  let best = null, least = Infinity;
  for (const one of cells) {
    if (one === here) continue;
    const [cx, cy] = middle(one);
    const along = (cx - x) * direction[0] + (cy - y) * direction[1];
    const across = Math.abs((cx - x) * direction[1]) + Math.abs((cy - y) * direction[0]);
    if (along < 4) continue;
    const distance = along + across * 3;
    if (distance < least) [best, least] = [one, distance];
  }
  best?.focus();
  best?.scrollIntoView({ block: "nearest" });
  return true;
}
