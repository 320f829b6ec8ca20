// Makes elements. Strings become text, never markup, whatever a person typed into them.

/** An element: el("p.note", {id: "x", onclick: f}, "text", child, null). */
export function el(kind, attributes = {}, ...children) {
  const [tag, ...classes] = kind.split(".");
  const node = document.createElement(tag);
  if (classes.length) node.classList.add(...classes);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return node;
}

/** Values of other people, side by side; none can turn the direction of its neighbours. */
export function joined(...values) {
  const parts = values.filter((value) => value).map((value) => el("bdi", {}, value));
  return parts.flatMap((part, index) => (index ? [" · ", part] : [part]));
}

/** Says something to a screen reader. */
export function announce(text) {
  document.getElementById("live").textContent = text;
}

/** A box that says what went wrong, and what to do next. */
export function problem(text, ...actions) {
  return el("div.problem", { role: "alert" }, el("p", {}, text), ...actions);
}

/** A button of the page. */
export function button(label, onclick, kind = "button.button", attributes = {}) {
  return el(kind, { type: "button", onclick, ...attributes }, label);
}
