// The repair dialog: asks for a reason, previews the repair, applies it.
import { repair, SignedOutError } from "./api.js";
import { button, el, errorBox } from "./elements.js";
import { capitalizeSentence, statusBadge } from "./format.js";
import { signIn } from "./session.js";

/** Open the dialog. `done` gets the response, `reload` loads a job that has changed. */
export function openRepairDialog({ job, option, reload, done }) {
  const draft = loadDraft(job.job_key);
  const { form, reason, reference, runAt, result } = repairForm(job, option, draft);
  const dialog = el("dialog", { "aria-labelledby": "dialog-title" }, form);
  // Busy, not disabled: a disabled button loses the focus.
  const busy = () => form.getAttribute("aria-busy") === "true";

  async function send(dryRun) {
    const missing = [reason, reference, runAt].find((input) => input && !input.value.trim());
    if (busy()) return;
    if (missing) return showFieldError(missing);
    form.setAttribute("aria-busy", "true");
    const response = await repair(buildRequest(dryRun)).catch((error) => showError(error, dryRun));
    form.setAttribute("aria-busy", "false");
    if (!response) return;
    if (dryRun) return showPreview(response);
    draft.clear();
    dialog.close();
    done(response, option.label);
  }

  function buildRequest(dryRun) {
    return {
      key: job.job_key,
      repair: option.repair,
      version: job.version,
      reason: reason.value.trim(),
      reference: reference?.value.trim() || undefined,
      run_at: runAt ? `${runAt.value}Z` : undefined,
      dry_run: dryRun,
    };
  }

  function showPreview({ job: after, ...details }) {
    const heading = el("h3", {}, "Preview: nothing was changed");
    result.replaceChildren(heading, comparison(details, after, "Status after the repair"));
  }

  function showError(error, dryRun) {
    result.replaceChildren(errorFor(error, dryRun));
  }

  function errorFor(error, dryRun) {
    const reloadButton = button("Reload", () => {
      dialog.close();
      reload();
    });
    if (error instanceof SignedOutError) {
      return errorBox(
        "Your session has expired. Nothing was changed, and what you typed is kept.",
        button("Sign in again", signIn),
      );
    }
    if (error.job) {
      return errorBox(
        `This job changed since you opened it: it is now ${error.job.status_label}. Nothing was changed. Reload and check again.`,
        reloadButton,
      );
    }
    if (error.contradiction) return errorBox("Nothing was changed.", bothSides(error.contradiction));
    const message = capitalizeSentence(error.message);
    // Without a definitive response the repair may have been applied.
    if (!error.isDefinitive && !dryRun) {
      return errorBox(
        `${message} The change may have been applied. Reload to check.`,
        reloadButton,
      );
    }
    return errorBox(message);
  }

  function showFieldError(input) {
    const messages = {
      reason: "Enter a reason. It is stored with the job.",
      reference: "Enter the provider reference. It is compared with the provider's.",
      "run-at": "Enter the new time, in UTC.",
    };
    result.replaceChildren(errorBox(messages[input.id]));
    input.setAttribute("aria-invalid", "true");
    input.focus();
  }

  form.querySelector(".actions").append(
    button("Cancel", () => busy() || dialog.close(), "button.plain"),
    button("Preview", () => send(true)),
    el("button.button.primary", {}, option.label),
  );
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    send(false);
  });
  dialog.addEventListener("cancel", (event) => busy() && event.preventDefault());
  dialog.addEventListener("close", () => dialog.remove());
  // Leaving the job closes its dialog.
  addEventListener("hashchange", () => dialog.close(), { once: true });
  document.body.append(dialog);
  dialog.showModal();
  reason.focus();
}

/** What the provider answered, or what the repair did, beside the job's status. */
export function comparison({ lookup, note }, job, statusLabel) {
  return el(
    "dl.comparison",
    {},
    lookup ? answerRow(lookup) : null,
    note ? row("Repair", capitalizeSentence(note)) : null,
    row(statusLabel, statusBadge(job), " ", job.headline),
  );
}

/** What the operator says, beside what the provider answered. */
const bothSides = ({ claim, lookup, fix }) =>
  el(
    "dl.comparison",
    {},
    row("You", capitalizeSentence(claim)),
    answerRow(lookup),
    row("Next", capitalizeSentence(fix)),
  );

const row = (label, ...value) => el("div", {}, el("dt", {}, label), el("dd", {}, ...value));

const answerRow = ({ provider, outcome, detail }) =>
  row(provider, capitalizeSentence(`${outcome}: ${detail}`));

function repairForm(job, option, draft) {
  const saved = draft.read();
  const reason = el("textarea", {
    id: "reason",
    required: true,
    rows: "3",
    maxlength: "500",
    "aria-describedby": "reason-help",
  });
  const reference = option.needs_reference
    ? el("input", {
        id: "reference",
        required: true,
        maxlength: "128",
        autocomplete: "off",
        spellcheck: "false",
      })
    : null;
  const runAt = option.needs_time
    ? el("input", { id: "run-at", type: "datetime-local", step: "1", required: true })
    : null;
  const inputs = [reason, reference, runAt].filter(Boolean);
  const result = el("div.result", { "aria-live": "polite" });
  const form = el(
    "form",
    { novalidate: true },
    el("h2", { id: "dialog-title" }, option.label),
    el("p", {}, capitalizeSentence(option.reason)),
    el("p.meta", {}, el("bdi", {}, job.job_key)),
    field(
      "Reason",
      reason,
      el("p.meta", { id: "reason-help" }, "Stored with the job, with your name."),
    ),
    reference ? field("Provider reference", reference) : null,
    runAt ? field("New time (UTC)", runAt) : null,
    result,
    el("div.actions"),
  );
  for (const input of inputs) input.value = saved[input.id] ?? "";
  form.addEventListener("input", ({ target }) => {
    target.removeAttribute("aria-invalid");
    draft.write(Object.fromEntries(inputs.map((input) => [input.id, input.value])));
  });
  return { form, reason, reference, runAt, result };
}

const field = (label, input, help = null) =>
  el("div.field", {}, el("label", { for: input.id }, label), input, help);

/** What was typed for a job. It survives a reload and a new sign-in, in this tab. */
function loadDraft(key) {
  const name = `oncely.draft:${key}`;
  return {
    read: () => JSON.parse(sessionStorage.getItem(name) ?? "{}"),
    write: (values) => sessionStorage.setItem(name, JSON.stringify(values)),
    clear: () => sessionStorage.removeItem(name),
  };
}
