// Small things that every view uses: states, chips, bars, ages, links.

import { h } from "./dom.js";
import { store } from "./store.js";
import { to, toObject } from "./router.js";

export function stateName(number) {
  return store.hello.states[number]?.name || "";
}

const MEANING = {
  free: "nobody has it",
  allocated: "a claim has it to itself",
  shared: "claims have parts of its capacity",
  tainted: "a taint keeps claims off it",
  unhealthy: "its driver or the kubelet reports a fault",
  blocked: "counters that it needs are used up by its neighbours",
  withheld: "its pool is incomplete or invalid",
};
export const meaning = (name) => MEANING[name] || "";

const TONES = {
  free: "free", allocated: "allocated", "allocated,reserved": "allocated", shared: "shared", tainted: "tainted",
  unhealthy: "unhealthy", blocked: "blocked", withheld: "withheld",
  pending: "waiting", Pending: "waiting", created: "plain", Running: "good", running: "good", Succeeded: "plain", Failed: "bad",
  Terminating: "going", "deleted": "going", "deleted,allocated": "going", "deleted,allocated,reserved": "going", gone: "gone",
  incomplete: "waiting", invalid: "bad", complete: "good", Ready: "good", "Not ready": "bad", fits: "good", stuck: "bad", refused: "bad", done: "plain",
};

export function chip(text, more = "") {
  const tone = TONES[text] || TONES[text.split(" ")[0]] || "plain";
  return h("span", { class: `chip tone-${tone}` }, h("span", { class: `mark m-${tone}`, "aria-hidden": "true" }), text, more);
}

export function mark(name) {
  return h("span", { class: `mark m-${name}`, "aria-hidden": "true" });
}

export function link(kind, id, text = id, props = {}) {
  return h("a", { href: toObject(kind, id), ...props }, text);
}

export const plural = (number, word) => `${number.toLocaleString("en")} ${word}${number === 1 ? "" : word.endsWith("s") ? "es" : "s"}`;

// A bar of all states, as long as the counts say.
export function stateBar(counts) {
  const total = counts.reduce((sum, count) => sum + count, 0);
  const said = counts.map((count, i) => (count ? `${count} ${stateName(i)}` : "")).filter(Boolean).join(", ");
  return h(
    "span", { class: "statebar", role: "img", "aria-label": said || "no devices", title: said },
    counts.map((count, i) => count ? h("span", { class: `seg s-${stateName(i)}`, css: { "flex-grow": String(count) } }) : null),
    total ? null : h("span", { class: "seg none" }),
  );
}

export function capacityBar([name, used, text]) {
  return h(
    "span", { class: "capbar", title: `${name}: ${text} used` },
    h("span", { class: "capname" }, name),
    h("span", { class: "captrack", role: "img", "aria-label": `${Math.round(used * 100)} % used` },
      h("span", { class: "capfill", css: { width: `${Math.max(used * 100, used ? 2 : 0)}%` } })),
    h("span", { class: "captext" }, text),
  );
}

// --- time ---

export function age(text) {
  const then = typeof text === "number" ? text * 1000 : Date.parse(text);
  if (!then) return "";
  const seconds = Math.max(0, Math.floor((Date.now() - then) / 1000));
  if (seconds < 120) return `${seconds}s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 120) return `${minutes}m`;
  const hours = Math.floor(minutes / 60);
  if (hours < 48) return `${hours}h`;
  return `${Math.floor(hours / 24)}d`;
}

export function moment(text) {
  const then = typeof text === "number" ? new Date(text * 1000) : new Date(text);
  if (isNaN(then)) return h("span", { class: "dim" }, "–");
  return h("time", { datetime: then.toISOString(), title: then.toLocaleString() }, `${age(text)} ago`);
}

export function clock(seconds) {
  return new Date(seconds * 1000).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", second: "2-digit", hour12: false });
}

export function panel(title, ...content) {
  return h("section", { class: "panel", key: title, "aria-label": title }, h("h2", null, title), content);
}

export function empty(...text) {
  return h("p", { class: "empty" }, text);
}

// Whether nothing of a kind may be read; of one that may be read in a namespace, that is shown.
export const unreadable = (kind) => store.hello.unread.includes(kind) && !store.hello.limited.includes(kind);

// What a list says that has nothing to show though nothing was filtered.
export function nothing(kind, word) {
  return unreadable(kind) ? `You may not read kind ${kind}, so none can be shown.` : `There is no ${word} yet.`;
}

// Why there is no device: nobody has published one, they may not be read, or drivers of classic classes keep them to themselves.
export function noDevices() {
  if (unreadable("ResourceSlice")) return empty("You may not read ResourceSlices, so no device can be shown.");
  const classic = [...store.classes.values()].some((row) => row.driver);
  if (!classic) return empty("There is no device yet.");
  return empty("No device is published: drivers of resource classes keep theirs to themselves. ", h("a", { href: to("claims") }, "Claims"), " say what is allocated.");
}
