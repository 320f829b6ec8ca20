// Creates elements. Strings become text nodes, never markup.

/** An element: el("p.note", {id: "x", onclick: f}, "text", child, null). */
export function el(selector, attributes = {}, ...children) {
  const [tag, ...classes] = selector.split(".");
  const node = document.createElement(tag);
  if (classes.length) node.classList.add(...classes);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined));
  return node;
}

/** Values side by side, each isolated so that it cannot reverse the direction of the next. */
export function joinWithDots(...values) {
  const parts = values.filter((value) => value).map((value) => el("bdi", {}, value));
  return parts.flatMap((part, index) => (index ? [" · ", part] : [part]));
}

/** Replace what a node contains. The element with the focus gets it again, if it has an id. */
export function replaceKeepingFocus(node, ...children) {
  const focusedId = node.contains(document.activeElement) ? document.activeElement.id : "";
  node.replaceChildren(...children);
  if (focusedId) document.getElementById(focusedId)?.focus({ preventScroll: true });
}

/** Announce a text to screen readers. */
export function announce(text) {
  document.getElementById("live").textContent = text;
}

/** A box that says what went wrong and what to do next. */
export function errorBox(text, ...actions) {
  return el("div.error", { role: "alert" }, el("p", {}, text), ...actions);
}

export function button(label, onclick, selector = "button.button", attributes = {}) {
  return el(selector, { type: "button", onclick, ...attributes }, label);
}
