// A table of which only the visible rows are drawn, however many there are.

import { h } from "./dom.js";
import { store } from "./store.js";
import { get, go, set } from "./router.js";
import { plural } from "./parts.js";

const ROW = 40;
const AROUND = 12; // rows drawn beyond the visible ones

const chosen = (columns) => {
  const [descending, by] = get("sort").startsWith("-") ? [true, get("sort").slice(1)] : [false, get("sort")];
  return [columns.find((one) => one.name === by && one.sort), descending];
};

// The rows in the order that the address asks for.
export function sorted(columns, rows) {
  const [column, descending] = chosen(columns);
  if (!column) return rows;
  const keys = new Map(rows.map((row) => [row, column.sort(row)]));
  return rows.sort((a, b) => {
    const x = keys.get(a), y = keys.get(b);
    return (x < y ? -1 : x > y ? 1 : 0) * (descending ? -1 : 1);
  });
}

// columns: {name, title, width, cell(row), sort(row)}; rows: filtered and sorted; href(row): where a row leads
export function table({ columns, rows, href, label, empty, scroller, selected, onselect }) {
  const [column, descending] = chosen(columns);
  const widths = columns.map((one) => one.width || "minmax(8rem, 1fr)").join(" ");
  const from = Math.max(0, Math.floor((scroller.scrollTop - 200) / ROW) - AROUND);
  const count = Math.ceil(scroller.clientHeight / ROW) + 2 * AROUND;
  const drawn = rows.slice(from, from + count);
  const head = h(
    "div", { class: "row head", role: "row", "aria-rowindex": "1", css: { "grid-template-columns": widths } },
    columns.map((one) => {
      const on = one === column;
      const sorting = on ? (descending ? "descending" : "ascending") : one.sort ? "none" : undefined;
      const next = on && !descending ? `-${one.name}` : on ? "" : one.name;
      return h(
        "div", { role: "columnheader", "aria-sort": sorting },
        one.sort
          ? h("button", { class: "sorts", onclick: () => set({ sort: next }) }, one.title, h("span", { class: "arrow", "aria-hidden": "true" }, on ? (descending ? "↓" : "↑") : ""))
          : one.title,
      );
    }),
  );
  const minute = Math.floor(Date.now() / 5000); // ages
  const body = drawn.map((row, i) => {
    const index = from + i;
    const make = () => h(
      "div",
      {
        class: `row${index === selected ? " selected" : ""}`, role: "row", "aria-rowindex": String(index + 2),
        css: { "grid-template-columns": widths, top: `${index * ROW}px` },
        onclick: (event) => {
          if (event.target.closest("a, button") || getSelection().toString()) return;
          onselect(index);
          go(href(row));
        },
      },
      columns.map((one) => titled(h("div", { role: "cell" }, one.cell(row)))),
    );
    return { key: row.id, signature: `${index} ${index === selected} ${store.revision} ${minute} ${location.hash}`, make };
  });
  return h(
    "div", { class: "tablewrap" },
    h("p", { class: "count", role: "status" }, plural(rows.length, label)),
    rows.length
      ? h("div", { class: "table", role: "table", "aria-label": `${label}s`, "aria-rowcount": String(rows.length + 1) },
          h("div", { role: "rowgroup" }, head),
          h("div", { class: "body", role: "rowgroup", css: { height: `${rows.length * ROW}px` }, wants: body }))
      : h("div", { class: "empty" }, empty),
  );
}

// What may be cut off can be read in full.
function titled(cell) {
  if (cell.textContent.length > 10 && !cell.querySelector("[title]")) cell.title = cell.textContent;
  return cell;
}

// Bring a row into view.
export function reveal(scroller, index) {
  const body = scroller.querySelector(".table .body");
  if (!body) return;
  const top = body.offsetTop + index * ROW;
  if (top < scroller.scrollTop + 60) scroller.scrollTop = top - 60;
  else if (top + ROW > scroller.scrollTop + scroller.clientHeight) scroller.scrollTop = top + ROW - scroller.clientHeight + 16;
}
