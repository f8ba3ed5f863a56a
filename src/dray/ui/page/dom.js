// Elements from plain values, and a tree that becomes another one with as few changes as possible, so that focus,
// selection and scrolling survive. Texts are texts: nothing is ever parsed as HTML.

const SVG = "http://www.w3.org/2000/svg";

export function h(tag, props, ...children) {
  return fill(document.createElement(tag), props, children);
}

export function svg(tag, props, ...children) {
  return fill(document.createElementNS(SVG, tag), props, children);
}

function fill(element, props, children) {
  for (const [name, value] of Object.entries(props || {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) {
      (element.handlers ||= {})[name] = value;
      element[name] = value;
    } else if (name === "css") {
      for (const [property, setting] of Object.entries(value)) element.style.setProperty(property, setting);
    } else if (name === "value") {
      element.wanted = element.value = value;
    } else if (name === "wants") {
      element.wants = value; // made once the element is in its place; most never are
      element.dataset.own = "yes";
    } else if (name === "key") {
      element.key = value;
    } else {
      element.setAttribute(name, value === true ? "" : value);
    }
  }
  append(element, children);
  if (element.wanted !== undefined && element.tagName === "SELECT") element.value = element.wanted;
  return element;
}

function append(element, children) {
  for (const child of children) {
    if (child === null || child === undefined || child === false || child === "") continue;
    if (Array.isArray(child)) append(element, child);
    else element.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
}

// Make what is inside `place` equal to `fresh`.
export function show(place, ...fresh) {
  const wanted = document.createElement("div");
  append(wanted, fresh);
  children(place, wanted);
}

function same(a, b) {
  return a.nodeType === b.nodeType && a.nodeName === b.nodeName && a.key === b.key && !a.dataset?.own === !b.dataset?.own;
}

// Keep the elements inside `place` equal to the wanted ones: those with the same key and signature are left alone, so
// that scrolling makes only what comes into view. Each wanted one is {key, signature, make()}.
export function keep(place, wanted) {
  const known = (place.kept ||= new Map());
  const keys = new Set(wanted.map((one) => one.key));
  for (const [key, one] of known) {
    if (!keys.has(key)) {
      one.element.remove();
      known.delete(key);
    }
  }
  for (const one of wanted) {
    const there = known.get(one.key);
    if (there?.signature === one.signature) continue;
    const fresh = one.make();
    if (there) {
      morph(there.element, fresh);
      there.signature = one.signature;
    } else {
      place.append(fresh);
      known.set(one.key, { element: fresh, signature: one.signature });
    }
  }
}

function settle(element) {
  if (element.wants) keep(element, element.wants);
  else for (const one of element.querySelectorAll?.("[data-own]") || []) keep(one, one.wants);
}

function morph(old, fresh) {
  if (old.nodeType !== Node.ELEMENT_NODE) {
    if (old.data !== fresh.data) old.data = fresh.data;
    return;
  }
  for (const { name } of [...old.attributes]) {
    if (!fresh.hasAttribute(name) && name !== "style" && name !== "open") old.removeAttribute(name);
  }
  for (const { name, value } of fresh.attributes) {
    if (name !== "style" && name !== "open" && old.getAttribute(name) !== value) old.setAttribute(name, value);
  }
  if (old.style && old.style.cssText !== fresh.style.cssText) old.style.cssText = fresh.style.cssText;
  for (const name of Object.keys(old.handlers || {})) if (!fresh.handlers?.[name]) old[name] = null;
  for (const [name, handler] of Object.entries(fresh.handlers || {})) old[name] = handler;
  old.handlers = fresh.handlers;
  if (old.dataset?.own) { // it keeps what is inside it
    keep(old, fresh.wants);
    return;
  }
  children(old, fresh);
  // What a person has typed stays, unless something else is wanted there than before.
  if (fresh.wanted !== old.wanted && old !== document.activeElement) {
    old.wanted = fresh.wanted;
    if (fresh.wanted !== undefined) old.value = fresh.wanted;
  }
}

function children(old, fresh) {
  const keyed = new Map();
  for (const child of old.childNodes) if (child.key !== undefined) keyed.set(child.key, child);
  let place = old.firstChild;
  for (const child of [...fresh.childNodes]) {
    const known = child.key !== undefined ? keyed.get(child.key) : place;
    if (known && known.parentNode === old && same(known, child)) {
      if (known !== place) old.insertBefore(known, place);
      else place = place.nextSibling;
      morph(known, child);
      keyed.delete(child.key);
    } else {
      old.insertBefore(child, place);
      settle(child);
    }
  }
  while (place) {
    const next = place.nextSibling;
    place.remove();
    place = next;
  }
}
