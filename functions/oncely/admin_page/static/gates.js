// Pauses, providers that do not respond, and the form to pause and resume.
import { gates, pause } from "./api.js";
import { announce, button, el, errorBox } from "./elements.js";
import { ageElement, capitalizeSentence } from "./format.js";

/** A banner above every list while something is held. */
export function heldBanner(signal) {
  const banner = el("section.held", { "aria-label": "Jobs on hold", hidden: true });
  gates(signal).then(
    (found) => {
      const lines = heldLines(found);
      banner.replaceChildren(...lines);
      banner.hidden = !lines.length;
    },
    () => {}, // The list below shows the error.
  );
  return banner;
}

/** A sentence for each pause and each provider that does not respond. */
export const heldLines = (found) => [...found.paused.map(pausedLine), ...found.open.map(openLine)];

const pausedLine = (one) =>
  el("p", {}, el("strong", {}, one.target), " has been paused for ", ageElement(one.at), ` by ${one.actor}: ${one.reason}`);

const openLine = (one) =>
  el("p", {}, el("strong", {}, one.gate), " has not responded for ", ageElement(one.since), ". Its jobs wait.");

/** The view #/gates/all: pause and resume, and who did. */
export async function showGates(_target, { user, signal, reload }) {
  const found = await gates(signal);
  const paused = new Set(found.paused.map((one) => one.target));
  const lines = heldLines(found);
  const nodes = [
    el("h1", { tabindex: "-1" }, "Pauses"),
    ...(lines.length ? lines : [el("p", {}, "Nothing is on hold. Pauses, and providers that do not respond, appear here.")]),
    user.can_repair ? pauseForm(found.targets, paused, reload) : null,
    el("h2", {}, "History"),
    historyTable(found.history),
  ];
  return { title: "Pauses", nodes };
}

function pauseForm(targets, paused, reload) {
  const result = el("div", { role: "status" });
  const options = targets.map((one) => el("option", { value: one }, paused.has(one) ? `${one} (paused)` : one));
  const target = el("select", { id: "target" }, ...options);
  const reason = el("input", { id: "pause-reason", maxlength: "300", autocomplete: "off" });
  const form = el(
    "form.pause",
    {},
    el("label", { for: "target" }, "Job type, queue or provider"),
    target,
    el("label", { for: "pause-reason" }, "Reason"),
    reason,
  );

  async function send(action) {
    if (form.getAttribute("aria-busy") === "true") return;
    if (action === "pause" && !reason.value.trim()) {
      result.replaceChildren(errorBox("Enter a reason. Other operators will see it."));
      return reason.focus();
    }
    form.setAttribute("aria-busy", "true");
    try {
      const done = await pause({ target: target.value, action, reason: reason.value.trim() });
      announce(`${done.target} is ${done.paused ? "paused" : "no longer paused"}.`);
      reload();
    } catch (error) {
      result.replaceChildren(errorBox(capitalizeSentence(error.message)));
    } finally {
      form.setAttribute("aria-busy", "false");
    }
  }

  form.append(button("Pause", () => send("pause")), button("Resume", () => send("resume")), result);
  form.addEventListener("submit", (event) => event.preventDefault());
  return form;
}

function historyTable(history) {
  if (!history.length) return el("p", {}, "Nothing has been paused yet. Each pause and resume appears here.");
  const cells = (one) => [ageElement(one.at), one.action, one.target, one.actor, one.reason];
  return el(
    "table",
    {},
    el("thead", {}, el("tr", {}, ...["Age", "Action", "Target", "Operator", "Reason"].map((name) => el("th", { scope: "col" }, name)))),
    el("tbody", {}, ...history.map((one) => el("tr", {}, ...cells(one).map((cell) => el("td", {}, cell))))),
  );
}
