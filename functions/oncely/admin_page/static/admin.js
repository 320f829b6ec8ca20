// Starts the page: signs in, follows the address to a view, and keeps keyboard and focus in order.
import { me, SignedOutError } from "./api.js";
import { announce, button, el, problem } from "./elements.js";
import { showJob } from "./job.js";
import { showFound, showList } from "./lists.js";
import { restore, signedIn, signIn, signOut, stack, wasSignedIn } from "./session.js";
import { findPlace } from "./words.js";

const HOME = { view: "list", name: "needs_review", query: new URLSearchParams() };
const VIEWS = { list: showList, find: showFound, job: showJob };
// Only what takes longer than this is worth saying aloud.
const SLOW_MS = 800;

const at = (id) => document.getElementById(id);
const main = at("main");
let person = null;
let shown = null;
let underWay = new AbortController();

/** The view that an address names: #/list/failed?type=…, #/find/18452, #/job/<key>. */
function route() {
  const [path, query] = location.hash.slice(2).split("?");
  const [view, name] = path.split("/");
  try {
    if (Object.hasOwn(VIEWS, view) && name)
      return { view, name: decodeURIComponent(name), query: new URLSearchParams(query) };
  } catch {
    // A half-copied address: begin at the beginning.
  }
  return HOME;
}

/** Load the view of the present address; the old one stays until the new one is there. */
async function open() {
  underWay.abort();
  const turn = (underWay = new AbortController());
  const wanted = route();
  mark(wanted);
  main.setAttribute("aria-busy", "true");
  const slow = setTimeout(() => announce("Loading…"), SLOW_MS);
  try {
    person ??= await me();
    const view = await VIEWS[wanted.view](wanted, {
      person,
      signal: turn.signal,
      reload: open,
    });
    if (!turn.signal.aborted) show(view, wanted);
  } catch (error) {
    if (!turn.signal.aborted)
      show(error instanceof SignedOutError ? signedOut() : broken(error), wanted);
  } finally {
    clearTimeout(slow);
    if (turn === underWay) main.removeAttribute("aria-busy");
  }
}

function show(view, wanted) {
  const same = shown && shown.view === wanted.view && shown.name === wanted.name;
  const focused = main.contains(document.activeElement) ? document.activeElement.id : "";
  frame();
  document.title = `${view.title} · Oncely`;
  main.replaceChildren(...view.nodes.filter(Boolean));
  // The first view is read from its top by itself; a refresh keeps its place; else to the heading.
  const target = (same && focused && at(focused)) || (shown && main.querySelector("h1"));
  if (!same) scrollTo(0, 0);
  target?.focus({ preventScroll: same });
  shown = wanted;
  announce(view.said ?? "");
}

/** What stands around the view: for those who are signed in only. */
function frame() {
  const known = signedIn();
  for (const id of ["search", "lists"]) at(id).hidden = !known || person === null;
  // Also for someone in no group: they may have another name to sign in with.
  at("account").hidden = !known;
  at("person").textContent = person?.name ?? "";
}

function mark(wanted) {
  // What was looked for stays beside what was found, and is in nobody's way elsewhere.
  if (wanted.view === "find") at("query").value = wanted.name;
  else if (wanted.view === "list" || shown?.view !== "find") at("query").value = "";
  for (const link of at("lists").children) {
    const here = wanted.view === "list" && link.getAttribute("href") === `#/list/${wanted.name}`;
    if (here) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
}

function signedOut(trouble = null) {
  const ended = wasSignedIn();
  const nodes = el(
    "div.welcome",
    {},
    el("h1", { tabindex: "-1" }, ended ? "Your sign-in has ended" : "Look up a job"),
    el(
      "p",
      {},
      ended
        ? "Sign in again to go on where you were. What you have typed is kept."
        : "Find out what became of a payment, a sync or an e-mail: by order, customer, provider reference or job key.",
    ),
    trouble
      ? problem(`You are not signed in: ${trouble}. Try again, or ask whoever runs this stack.`)
      : null,
    button(ended ? "Sign in again" : "Sign in", signIn, "button.button.primary"),
  );
  return { title: "Sign in", nodes: [nodes] };
}

function broken(error) {
  const heading = el("h1", { tabindex: "-1" }, "This could not be loaded");
  const nodes = [heading, problem(error.message, button("Try again", open))];
  return { title: "Not loaded", nodes };
}

function search(event) {
  event.preventDefault();
  const text = at("query").value.trim();
  if (!text) return at("query").focus();
  // The same search again is a refresh: the address does not change, so nothing would be heard.
  if (location.hash === findPlace(text)) return open();
  location.hash = findPlace(text);
}

function keys(event) {
  const typing = event.target.closest("input, textarea, select, dialog");
  if (
    event.key !== "/" ||
    typing ||
    event.ctrlKey ||
    event.metaKey ||
    event.altKey ||
    at("search").hidden
  )
    return;
  event.preventDefault();
  at("query").select();
  at("query").focus();
}

async function start() {
  at("search").addEventListener("submit", search);
  at("sign-out").addEventListener("click", signOut);
  at("skip").addEventListener("click", (event) => {
    event.preventDefault();
    main.focus();
  });
  document.addEventListener("keydown", keys);
  try {
    const trouble = await restore();
    at("stack").textContent = stack();
    addEventListener("hashchange", open);
    if (trouble || !signedIn()) show(signedOut(trouble), route());
    else await open();
  } catch {
    show(
      {
        title: "Not loaded",
        nodes: [
          el("h1", {}, "Oncely"),
          problem(
            "The page could not start. Reload it; if that does not help, ask whoever runs this stack.",
          ),
        ],
      },
      HOME,
    );
  }
}

start();
