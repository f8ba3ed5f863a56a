// Trying a selector, and pods that are not there.

import { h } from "./dom.js";
import { ask, store } from "./store.js";
import { get, set } from "./router.js";
import { empty, link, plural } from "./parts.js";
import { whyPanel } from "./detail.js";

const EXAMPLE = 'device.driver == "gpu.example.com"';
let cel = { source: null, answer: null, timer: 0, revision: -1 };
let names = { of: -1, list: [] };
let whatif = { answer: null, busy: false, mode: "form" };

function evaluate(source, redraw) {
  clearTimeout(cel.timer);
  cel.source = source;
  cel.revision = store.revision;
  if (!source.trim()) {
    cel.answer = null;
    return;
  }
  cel.timer = setTimeout(async () => {
    const answer = await ask("api/cel", { expression: source }).catch(() => null);
    if (cel.source === source && answer) {
      cel.answer = answer;
      redraw();
    }
  }, 120);
}

export function tryView(redraw) {
  const source = get("cel");
  if (cel.source !== source || cel.revision !== store.revision) evaluate(source, redraw);
  if (names.of !== store.slicesRevision) {
    names = { of: store.slicesRevision, list: names.list };
    ask("api/attributes").then((list) => {
      if (Array.isArray(list)) names.list = list;
      redraw();
    });
  }
  return [
    h("div", { class: "heading" }, h("h1", null, "Try")),
    h("section", { class: "panel", key: "cel", "aria-label": "A selector" },
      h("h2", null, "A selector"),
      h("p", { class: "dim" }, "A CEL expression over ", h("code", null, "device"), ", evaluated on every device of the cluster as you type."),
      h("label", { class: "hidden", for: "cel" }, "CEL expression"),
      h("textarea", { id: "cel", class: "code", rows: "2", spellcheck: "false", autocomplete: "off", placeholder: EXAMPLE, value: source, oninput: (event) => set({ cel: event.target.value }, { replace: true }) }),
      names.list.length ? h("div", { class: "hints", role: "group", "aria-label": "Attributes that devices have" }, names.list.slice(0, 14).map(([name, count]) => h("button", { class: "hint", title: `${plural(count, "device")} have it`, onclick: () => insert(name) }, shortName(name)))) : null,
      celAnswer(cel.answer)),
    h("section", { class: "panel", key: "whatif", "aria-label": "What if" },
      h("div", { class: "panelhead" }, h("h2", null, "What if"),
        h("div", { class: "segmented", role: "group", "aria-label": "How to ask" }, [["form", "form"], ["manifest", "manifest"]].map(([mode, text]) =>
          h("button", { "aria-pressed": String(whatif.mode === mode), onclick: () => { whatif.mode = mode; redraw(); } }, text)))),
      h("p", { class: "dim" }, "How many of these would fit, and where would they go? Nothing is created."),
      form(redraw), answer(whatif.answer)),
  ];
}

// Without its domain, unless another attribute has the same name.
function shortName(name) {
  const bare = name.split("/").pop();
  return names.list.filter(([other]) => other.split("/").pop() === bare).length > 1 ? name : bare;
}

function insert(name) {
  const field = document.getElementById("cel");
  const [domain, bare] = [name.slice(0, name.lastIndexOf("/")), name.slice(name.lastIndexOf("/") + 1)];
  const text = `device.attributes["${domain}"].${bare}`;
  const at = field.selectionStart ?? field.value.length;
  const before = field.value.slice(0, at);
  field.value = `${before}${before && !/\s$/.test(before) ? " && " : ""}${text} ${field.value.slice(at)}`.trimEnd();
  field.focus();
  set({ cel: field.value }, { replace: true });
}

function celAnswer(found) {
  if (!found) return null;
  if (found.problem) return h("pre", { class: "problem", role: "status", tabindex: "0" }, found.problem);
  const share = found.devices ? (found.matches / found.devices) * 100 : 0;
  const failing = found.errors.reduce((sum, one) => sum + one.devices, 0);
  return h("div", { class: "celanswer" },
    h("p", { class: "headline", role: "status" }, h("strong", null, found.matches.toLocaleString("en")), ` of ${plural(found.devices, "device")} match`, failing ? h("span", { class: "badtext" }, `, ${failing} fail`) : null),
    h("span", { class: "statebar matchbar", "aria-hidden": "true" }, share ? h("span", { class: "seg s-allocated", css: { width: `${share}%` } }) : null),
    found.errors.map((one) => h("p", { class: "badtext" }, `${plural(one.devices, "device")} such as `, link("device", one.example), `: ${one.message}`)),
    found.asked.length ? h("table", { class: "lines" }, h("thead", null, h("tr", null, ["It reads", "Devices have"].map((name) => h("th", { scope: "col" }, name)))),
      h("tbody", null, found.asked.map((one) => h("tr", null, h("td", null, h("code", null, one.name)),
        h("td", null, one.values.map((v) => `${v.value} (${v.devices})`).join(", "), one.otherDevices ? `, others (${one.otherDevices})` : "", one.missing ? `${one.values.length ? ", " : ""}missing (${one.missing})` : "", one.suggestion ? h("strong", null, ` did you mean ${one.suggestion}?`) : null))))) : null,
    h("p", { class: "dim" }, `Cost: at most ${found.cost.estimate.toLocaleString("en")} by estimate, ${found.cost.actual.toLocaleString("en")} really, limit ${found.cost.limit.toLocaleString("en")}; ${(found.seconds * 1000).toFixed(1)} ms.`),
    found.matching.length ? h("ul", { class: "matches" }, found.matching.slice(0, 60).map((id) => h("li", { key: id }, link("device", id)))) : null,
    found.matches > 60 ? h("p", { class: "dim" }, `… and ${(found.matches - 60).toLocaleString("en")} more`) : null);
}

function form(redraw) {
  const submit = async (event) => {
    event.preventDefault();
    const data = new FormData(event.target);
    const most = event.submitter?.name === "most";
    const wish = { copies: most ? 0 : Number(data.get("copies") || 1), policy: data.get("policy"), namespace: get("ns") || store.hello.namespace || "default" };
    if (whatif.mode === "manifest") wish.manifest = data.get("manifest");
    else Object.assign(wish, { class: data.get("class") || "", devices: Number(data.get("devices") || 1), selector: data.get("selector") || "" });
    whatif.busy = true;
    redraw();
    whatif.answer = await ask("api/whatif", {}, { method: "POST", body: JSON.stringify(wish), headers: { "Content-Type": "application/json" } }).catch(() => ({ problem: "The server does not answer." }));
    whatif.busy = false;
    redraw();
  };
  const copies = h("label", null, "Pods", h("input", { type: "number", name: "copies", min: "1", max: "1000", value: "1" }));
  const policy = h("label", null, "Policy", h("select", { name: "policy" }, (store.hello.policies || ["default"]).map((name) => h("option", { value: name }, name))));
  const button = h("div", { class: "buttons whole" },
    h("button", { class: "primary", type: "submit", disabled: whatif.busy }, whatif.busy ? "Trying …" : "Would it fit?"),
    h("button", { class: "secondary", type: "submit", name: "most", disabled: whatif.busy }, "How many fit?"));
  if (whatif.mode === "manifest") {
    return h("form", { class: "whatif", key: "manifest", onsubmit: submit },
      h("label", { class: "whole" }, "Pods, workloads, claims and whatever else is to be there", h("textarea", { name: "manifest", class: "code", rows: "10", spellcheck: "false", placeholder: "apiVersion: v1\nkind: Pod\n…" })),
      copies, policy, button);
  }
  return h("form", { class: "whatif", key: "form", onsubmit: submit },
    h("label", null, "Device class", h("select", { name: "class" }, [...store.classes.keys()].sort().map((name) => h("option", { value: name }, name)))),
    h("label", null, "Devices for each pod", h("input", { type: "number", name: "devices", min: "1", max: "32", value: "1" })),
    copies, policy,
    h("label", { class: "whole" }, "Selector, if any", h("input", { type: "text", name: "selector", class: "code", spellcheck: "false", autocomplete: "off", placeholder: 'device.attributes["gpu.example.com"].model == "…"' })),
    button);
}

function verdict({ fit, wanted, problem }) {
  if (!wanted) return !fit ? "None fits." : problem ? `${fit.toLocaleString("en")} would fit.` : `${fit.toLocaleString("en")} would fit, and perhaps more.`;
  if (fit === wanted) return wanted > 1 ? `All ${wanted.toLocaleString("en")} fit.` : "It fits.";
  return `${fit.toLocaleString("en")} of ${wanted.toLocaleString("en")} fit.`;
}

function answer(found) {
  if (!found) return null;
  if (found.problem && found.fit === undefined) return h("p", { class: "problem", role: "status" }, found.problem);
  return h("div", { class: "fitanswer" },
    h("p", { class: "headline", role: "status" }, verdict(found)),
    found.nodes.length && found.placed.length > 20 ? h("table", { class: "lines" }, h("thead", null, h("tr", null, ["Node", "Pods"].map((name) => h("th", { scope: "col" }, name)))),
      h("tbody", null, found.nodes.slice(0, 20).map(([node, pods]) => h("tr", null, h("td", null, store.nodes.has(node) ? link("node", node) : node), h("td", null, String(pods)))))) : null,
    found.placed.length && found.placed.length <= 20 ? h("table", { class: "lines" }, h("thead", null, h("tr", null, ["Pod", "Node", "Devices"].map((name) => h("th", { scope: "col" }, name)))),
      h("tbody", null, found.placed.map((one) => h("tr", null, h("td", null, one.pod), h("td", null, one.node), h("td", null, h("span", { class: "several" }, one.devices.map((d) => h("span", { class: "one" }, link("device", d.device))))))))) : null,
    found.why ? whyPanel(found.why, found.fit ? "Why no more fit" : "Why it does not fit") : found.problem ? empty(found.problem) : null);
}
