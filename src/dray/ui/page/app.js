// The frame: navigation, search, namespace, keys, the state of the connection, and which view is shown.

import { h, show } from "./dom.js";
import { connect, listen, namespaces, store } from "./store.js";
import { current, get, go, set, to } from "./router.js";
import { overviewView } from "./overview.js";
import { mapKey, mapView } from "./map.js";
import { LISTS, listKey, listView, searchKey, searchView } from "./lists.js";
import { OBJECTS, detailView } from "./detail.js";
import { tryView } from "./trypage.js";
import { unreadable } from "./parts.js";

const VIEWS = [
  ["overview", "Overview"], ["map", "Map"], null,
  ["devices", "Devices"], ["claims", "Claims"], ["pods", "Pods"], null,
  ["nodes", "Nodes"], ["classes", "Classes"], ["pools", "Pools"], ["slices", "Slices"], null,
  ["try", "Try"],
];
const KINDS = {
  devices: "ResourceSlice", pools: "ResourceSlice", slices: "ResourceSlice", claims: "ResourceClaim", pods: "Pod", nodes: "Node", classes: "DeviceClass",
};
const KEYS = [
  ["/", "search"], ["?", "this list"], ["↑ ↓", "go through a table or what was found"], ["← ↑ ↓ →", "go through the map"],
  ["Enter", "open what is selected"], ["Esc", "close, clear the search, or go back up"],
  ["g o", "overview"], ["g m", "map"], ["g d", "devices"], ["g c", "claims"], ["g p", "pods"], ["g t", "try"],
];
const GOES = { o: "overview", m: "map", d: "devices", c: "claims", p: "pods", n: "nodes", t: "try" };

const content = document.getElementById("content");
const place = (id) => document.getElementById(id);

// The address that dray prints has the token in it. It is in the cookie now, and need not be seen by those who look on.
const address = new URL(location.href);
if (address.searchParams.has("token")) {
  address.searchParams.delete("token");
  history.replaceState(null, "", address.pathname + address.search + address.hash);
}

let wanted = "";
function redraw(what = "all") {
  const scheduled = wanted;
  wanted = wanted === "all" || what !== "scrolled" ? "all" : "scrolled";
  if (scheduled) return;
  requestAnimationFrame(() => {
    const all = wanted === "all";
    wanted = "";
    draw(all);
  });
}

function draw(all = true) {
  const { view } = current();
  if (all) {
    top(view);
    navigation(view);
    notices();
  }
  if (!store.ready) {
    if (store.connection === "refused") show(content, h("p", { class: "loading" }, "This page is not answered any more. Open the address that dray printed once again."));
    return;
  }
  document.title = `${get("id") || view[0].toUpperCase() + view.slice(1)} · dray`;
  show(content, body(view));
}

function body(view) {
  if (view === "overview") return overviewView();
  if (view === "map") return mapView(content, redraw);
  if (view === "search") return searchView();
  if (view === "try") return tryView(redraw);
  if (LISTS[view]) return listView(view, content);
  if (OBJECTS[view]) return detailView(view, redraw);
  return [h("div", { class: "heading" }, h("h1", null, "There is no such page")), h("p", null, h("a", { href: to("overview") }, "Overview"))];
}

// --- frame ---

const CONNECTION = {
  live: ["live", "Live"], connecting: ["wait", "Connecting …"], lost: ["lost", "Connection lost, trying again …"],
  refused: ["lost", "Not answered: open the printed address again"],
};

function top(view) {
  const searches = Boolean(LISTS[view]) || view === "map" || view === "search";
  const [tone, words] = CONNECTION[store.connection];
  show(place("top"),
    h("a", { class: "brand", href: to("overview") }, h("img", { src: "icon.svg", alt: "", width: "22", height: "22" }), "dray"),
    h("form", { class: "search", role: "search", onsubmit: (event) => { event.preventDefault(); content.focus(); } },
      h("label", { class: "hidden", for: "q" }, "Search"),
      h("input", {
        id: "q", type: "search", placeholder: "Search", autocomplete: "off", spellcheck: "false", value: get("q"),
        oninput: (event) => {
          const q = event.target.value;
          if (searches) set({ q }, { replace: true });
          else if (q) go(to("search", { q }));
        },
      }), h("kbd", { "aria-hidden": "true" }, "/")),
    h("label", { class: "ns" }, h("span", { class: "hidden" }, "Namespace"),
      h("select", { value: get("ns"), onchange: (event) => set({ ns: event.target.value }) },
        h("option", { value: "" }, "All namespaces"), namespaces().map((name) => h("option", { value: name }, name)))),
    h("span", { class: `connection ${tone}`, role: "status" }, h("span", { class: "dot", "aria-hidden": "true" }), words),
    h("button", { class: "helpbutton", "aria-label": "Keys", title: "Keys (?)", onclick: help }, "?"));
}

function navigation(view) {
  const group = OBJECTS[view] || view;
  const counts = {
    devices: store.overview.states.reduce((a, b) => a + b, 0), claims: store.claims.size, pods: store.pods.size,
    nodes: store.nodes.size, classes: store.classes.size, pools: store.pools.size, slices: store.slices.size,
  };
  show(place("nav"),
    VIEWS.map((one) => one
      ? h("a", { href: to(one[0]), "aria-current": group === one[0] ? "page" : undefined }, one[1],
          counts[one[0]] !== undefined && store.ready ? h("span", { class: "number" }, unreadable(KINDS[one[0]]) ? "–" : counts[one[0]].toLocaleString("en")) : null)
      : h("span", { class: "rule", "aria-hidden": "true" })),
    h("p", { class: "about" }, [store.hello.cluster, store.hello.release ? `Kubernetes ${store.hello.release}` : "", store.hello.version ? `dray ${store.hello.version}` : ""]
      .filter(Boolean).map((text) => h("span", null, text))));
}

function notices() {
  const { unread, limited, namespace } = store.hello;
  const hidden = unread.filter((kind) => !limited.includes(kind));
  show(place("notices"),
    store.upstream ? h("p", { class: "notice bad", role: "status" }, `The API server cannot be reached; what is shown may be old: ${store.upstream}`) : null,
    unread.length ? h("p", { class: "notice" },
      hidden.length ? `You may not read ${hidden.join(", ")}: what depends on them is left out. ` : "",
      limited.length ? `Of ${limited.join(", ")} those of namespace ${namespace} are shown.` : "") : null);
}

function help() {
  const dialog = place("help");
  show(dialog, h("h2", { id: "help-title" }, "Keys"),
    h("dl", { class: "keys" }, KEYS.map(([keys, what]) => [h("dt", null, keys.split(" ").map((key) => h("kbd", null, key))), h("dd", null, what)])),
    h("form", { method: "dialog" }, h("button", { class: "primary" }, "Close")));
  dialog.showModal();
}

// --- keys ---

let leader = 0;

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const typing = event.target.closest("input, textarea, select");
  const { view } = current();
  if (event.key === "Escape") {
    if (place("help").open) return;
    if (event.target.id === "q" || (get("q") && !typing)) {
      set({ q: "" }, { replace: true });
      place("q").value = "";
      content.focus();
    } else if (typing) {
      typing.blur();
      content.focus();
    } else if (OBJECTS[view]) {
      go(to(OBJECTS[view]));
    } else if (view !== "overview") {
      go(to("overview"));
    }
    return;
  }
  const inSearch = event.target.id === "q" && ["ArrowDown", "ArrowUp", "Enter"].includes(event.key);
  if (typing && !inSearch) return;
  if (event.key === "/") place("q").focus();
  else if (event.key === "?") help();
  else if (event.key === "g") { leader = Date.now(); return; }
  else if (Date.now() - leader < 1500 && GOES[event.key]) { leader = 0; go(to(GOES[event.key])); }
  else if (LISTS[view] && listKey(view, event, content, redraw)) { /* done */ }
  else if (view === "map" && !typing && mapKey(event, content)) { /* done */ }
  else if (view === "search" && searchKey(event, content)) { /* done */ }
  else return;
  event.preventDefault();
});

// --- life ---

let before = "";
window.addEventListener("hashchange", () => {
  const { view } = current();
  const here = `${view} ${get("id")}`;
  if (here !== before) content.scrollTop = 0;
  before = here;
  if (place("q").value.trim() !== get("q").trim()) place("q").value = get("q");
  redraw();
});
document.querySelector(".skip").addEventListener("click", (event) => { event.preventDefault(); content.focus(); });
content.addEventListener("scroll", () => { const { view } = current(); if (LISTS[view] || view === "map") redraw("scrolled"); }, { passive: true });
window.addEventListener("resize", () => redraw());
listen((what) => { if (what !== "changed" || OBJECTS[current().view]) redraw(); });
setInterval(() => redraw(), 5000); // ages
draw();
connect();
