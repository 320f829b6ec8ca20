// Starts the page: sign-in, routing, keyboard and focus.
import { currentUser, SignedOutError } from "./api.js";
import { showBulkRun } from "./bulk.js";
import { announce, button, el, errorBox } from "./elements.js";
import { capitalizeSentence, searchHref } from "./format.js";
import { showGates } from "./gates.js";
import { showJob } from "./job.js";
import { showList, showSearchResults } from "./lists.js";
import { showOverview } from "./overview.js";
import { showReport } from "./reports.js";
import { restoreSession, signedIn, signIn, signOut, stack, wasSignedIn } from "./session.js";

const HOME = { view: "overview", name: "24h", query: new URLSearchParams() };
const VIEWS = {
  overview: showOverview,
  list: showList,
  find: showSearchResults,
  job: showJob,
  bulk: showBulkRun,
  gates: showGates,
  report: showReport,
};
// Announce loading to screen readers only when it takes longer than this.
const SLOW_MS = 800;

const at = (id) => document.getElementById(id);
const main = at("main");
let user = null;
let shown = null;
let pendingLoad = new AbortController();

/** The view of the URL: #/list/failed?type=…, #/find/18452, #/job/<key>, #/report/rejects. */
function route() {
  const [path, query] = location.hash.slice(2).split("?");
  const [view, name] = path.split("/");
  try {
    if (Object.hasOwn(VIEWS, view) && name)
      return { view, name: decodeURIComponent(name), query: new URLSearchParams(query) };
  } catch {
    // An incomplete URL opens the home view.
  }
  return HOME;
}

/** Load the view of the current URL. The old view stays until the new one is ready. */
async function loadRoute() {
  pendingLoad.abort();
  const load = (pendingLoad = new AbortController());
  const target = route();
  highlightNav(target);
  main.setAttribute("aria-busy", "true");
  const slow = setTimeout(() => announce("Loading…"), SLOW_MS);
  try {
    user ??= await currentUser();
    const view = await VIEWS[target.view](target, {
      user,
      signal: load.signal,
      reload: loadRoute,
    });
    if (!load.signal.aborted) renderView(view, target);
  } catch (error) {
    if (!load.signal.aborted)
      renderView(
        error instanceof SignedOutError ? renderSignedOut() : renderError(error),
        target,
      );
  } finally {
    clearTimeout(slow);
    if (load === pendingLoad) main.removeAttribute("aria-busy");
  }
}

function renderView(view, target) {
  const same = shown && shown.view === target.view && shown.name === target.name;
  const focusedId = main.contains(document.activeElement) ? document.activeElement.id : "";
  updateChrome();
  document.title = `${view.title} · Oncely`;
  main.replaceChildren(...view.nodes.filter(Boolean));
  // Screen readers read the first view from its top. A refresh keeps the focus; otherwise the
  // heading gets it.
  const focus = (same && focusedId && at(focusedId)) || (shown && main.querySelector("h1"));
  if (!same) scrollTo(0, 0);
  focus?.focus({ preventScroll: same });
  shown = target;
  announce(view.announcement ?? "");
}

/** Show search, lists and account to signed-in users only. */
function updateChrome() {
  const known = signedIn();
  for (const id of ["search", "lists"]) at(id).hidden = !known || user === null;
  // A user in no group can still sign out and use another account.
  at("account").hidden = !known;
  at("user").textContent = user?.name ?? "";
}

function highlightNav(target) {
  // The search text stays beside its results and is cleared elsewhere.
  if (target.view === "find") at("query").value = target.name;
  else if (target.view === "list" || shown?.view !== "find") at("query").value = "";
  for (const link of at("lists").children) {
    const [, view, name] = link.getAttribute("href").split("/");
    // Both time ranges of the overview have one link.
    const current = view === target.view && (name === target.name || view === HOME.view);
    if (current) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
}

function renderSignedOut(error = null) {
  const expired = wasSignedIn();
  const nodes = el(
    "div.welcome",
    {},
    el("h1", { tabindex: "-1" }, expired ? "Your session has expired" : "Look up a job"),
    el(
      "p",
      {},
      expired
        ? "Sign in again to continue where you were. What you typed is kept."
        : "Find the status of a job by order, customer, provider reference or job key.",
    ),
    error
      ? errorBox(`Sign-in failed: ${error}. Try again, or contact your administrator.`)
      : null,
    button(expired ? "Sign in again" : "Sign in", signIn, "button.button.primary"),
  );
  return { title: "Sign in", nodes: [nodes] };
}

function renderError(error) {
  const heading = el("h1", { tabindex: "-1" }, "Loading failed");
  const message = capitalizeSentence(error.message);
  const nodes = [heading, errorBox(message, button("Try again", loadRoute))];
  return { title: "Loading failed", nodes };
}

function search(event) {
  event.preventDefault();
  const text = at("query").value.trim();
  if (!text) return at("query").focus();
  // Repeating a search does not change the URL, so no hashchange event would reload it.
  if (location.hash === searchHref(text)) return loadRoute();
  location.hash = searchHref(text);
}

function handleShortcut(event) {
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
  document.addEventListener("keydown", handleShortcut);
  try {
    const error = await restoreSession();
    at("stack").textContent = stack();
    addEventListener("hashchange", loadRoute);
    if (error || !signedIn()) renderView(renderSignedOut(error), route());
    else await loadRoute();
  } catch {
    renderView(
      {
        title: "Loading failed",
        nodes: [
          el("h1", {}, "Oncely"),
          errorBox(
            "The page could not start. Reload it. If the error persists, contact your administrator.",
          ),
        ],
      },
      HOME,
    );
  }
}

start();
